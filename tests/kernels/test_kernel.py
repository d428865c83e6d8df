from riverrun.kernels.group import GroupKernel
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, Kernel


def test_times_leave_room_for_arithmetic():
    largest = 1 << 63
    century = 100 * 366 * 86_400_000_000
    assert -largest < MIN_TIME - century
    assert MAX_TIME + century < largest


def test_a_kernel_is_anything_with_tables_and_a_step():
    kernel: type[Kernel] = GroupKernel
    assert kernel.tables and kernel.step
