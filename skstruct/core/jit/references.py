"""NamedTuples by reference: what kernels are called with goes from kernel to kernel as a pointer.

Numba passes a NamedTuple of arrays as its hundred scalars, from each kernel to the next, and
compiles all that moving. This is numba's interface for extensions, and not needed: without it
kernels pass values.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, unbox

from .numba_private import TRICKS


class Reference(types.Type):
    """NamedTuple that its owner keeps alive and that nothing changes."""

    def __init__(self, target):
        self.target = target
        super().__init__(name=f"Reference({target})")

    @property
    def key(self):
        """Key that distinguishes types: the class and the types of the fields."""
        return self.target

    @property
    def instance_class(self):
        """The class."""
        return self.target.instance_class

    def field(self, name):
        """Position and type of a field; of a NamedTuple again a reference."""
        at = self.target.fields.index(name)
        kind = tuple(self.target)[at]
        return at, refer(kind)


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, manager.lookup(kind.target).get_value_type().as_pointer())


@infer_getattr
class _ReferenceFields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference, name):
        return reference.field(name)[1] if name in reference.target.fields else None


def _load(builder, pointer, known=()):
    """Load the value at `pointer`, each scalar as one that does not change while kernels run.

    `known` has values of parts that need no load.
    """
    kind = pointer.type.pointee
    if isinstance(kind, (ir.LiteralStructType, ir.ArrayType)):
        value = ir.Constant(kind, ir.Undefined)
        for k in range(len(kind)):
            if k in known:
                part = known[k]
            else:
                part = _load(builder, cgutils.gep_inbounds(builder, pointer, 0, k))
            value = builder.insert_value(value, part, k)
        return value
    value = builder.load(pointer)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _array_parts(context, kind):
    """Return the constant fields of an array: kernels neither count references nor free it."""
    model = context.data_model_manager[kind]
    parts = {
        name: (model.get_field_position(name), model.get_member_fe_type(name))
        for name in ("meminfo", "parent", "itemsize")
    }
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    return {
        at: context.get_constant(part, size)
        if name == "itemsize"
        else cgutils.get_null_value(context.get_value_type(part))
        for name, (at, part) in parts.items()
    }


@lower_getattr_generic(Reference)
def _lower_field(context, builder, reference, pointer, name):
    at, kind = reference.field(name)
    place = cgutils.gep_inbounds(builder, pointer, 0, at)
    if isinstance(kind, Reference):
        return place
    known = _array_parts(context, kind) if isinstance(kind, types.Array) else ()
    # Counted where references are: in functions of others that kernels call.
    return impl_ret_borrowed(context, builder, kind, _load(builder, place, known))


def _is_plain(kind):
    """Return whether a value of this type needs no cleanup when the kernel ends."""
    if isinstance(kind, types.BaseTuple):
        return all(map(_is_plain, kind))
    return isinstance(kind, types.Array | types.Number | types.Boolean)


def _taker(c, kind):
    """Return a function that writes a Python object as a `kind`, and returns whether it failed.

    One for each type: pasted for each field, this is half the code of a small kernel.
    """
    name = f"take {kind}"
    if name in c.builder.module.globals:
        return c.builder.module.globals[name]
    pointer = c.context.get_value_type(kind).as_pointer()
    signature = ir.FunctionType(ir.IntType(1), [c.pyapi.pyobj, pointer])
    function = ir.Function(c.builder.module, signature, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    pyapi = c.context.get_python_api(builder)
    value, place = function.args
    if isinstance(kind, types.BaseTuple):
        wrong = builder.icmp_signed(
            "!=", pyapi.tuple_size(value), ir.Constant(pyapi.py_ssize_t, len(kind))
        )
        with builder.if_then(wrong, likely=False):
            pyapi.err_set_string("PyExc_ValueError", f"a {kind.__class__.__name__} of wrong length")
            builder.ret(cgutils.true_bit)
        for k, part in enumerate(kind):
            at = cgutils.gep_inbounds(builder, place, 0, k)
            failed = builder.call(_taker(c, part), [pyapi.tuple_getitem(value, k), at])
            with builder.if_then(failed, likely=False):
                builder.ret(cgutils.true_bit)
        builder.ret(cgutils.false_bit)
    else:
        native = pyapi.to_native_value(kind, value)
        builder.store(native.value, place)
        builder.ret(native.is_error)
    return function


@unbox(Reference)
def _unbox(kind, value, c):
    """Python's NamedTuple to where the kernel that Python calls keeps it while it runs."""
    if _is_plain(kind.target):
        pointer = cgutils.alloca_once(c.builder, c.context.get_value_type(kind.target))
        is_error, cleanup = c.builder.call(_taker(c, kind.target), [value, pointer]), None
    else:
        native = c.pyapi.to_native_value(kind.target, value)
        pointer = cgutils.alloca_once_value(c.builder, native.value)
        is_error, cleanup = native.is_error, native.cleanup
    # Hidden from LLVM: it must not move loads of what never changes before the stores.
    hidden = ir.FunctionType(pointer.type, [pointer.type])
    pointer = c.builder.asm(hidden, "", "=r,0,~{memory}", [pointer], side_effect=True)
    return NativeValue(pointer, cleanup=cleanup, is_error=is_error)


def refer(kind):
    """The type by which a kernel takes an argument of type `kind`."""
    return Reference(kind) if isinstance(kind, types.BaseNamedTuple) else kind


def take_references(dispatcher, before):
    """Let Python call `dispatcher` with NamedTuples, and its code see references.

    `before` is called before each compile.
    """
    compiler = getattr(dispatcher, "_compiler", None)
    if not hasattr(compiler, "compile"):
        return  # pragma: no cover
    compile_values = compiler.compile

    def compile_references(args, return_type):
        before()
        if not TRICKS["references"]:
            return compile_values(args, return_type)
        result = compile_values(tuple(map(refer, args)), return_type)
        # Python's arguments are looked up by this.
        return result._replace(signature=result.signature.replace(args=tuple(args)))

    compiler.compile = compile_references
