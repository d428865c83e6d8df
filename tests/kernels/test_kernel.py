from riverrun.kernels.group import Group
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, Clock, Counts, Kernel


def test_counts_balance():
    assert Counts(read=5, accepted=1, late_dropped=1, late_aside=1, duplicates=1, quarantined=1).balanced
    assert not Counts(read=5, accepted=4).balanced


def test_times_leave_room_for_arithmetic():
    largest = 1 << 63
    century = 100 * 366 * 86_400_000_000
    assert -largest < MIN_TIME - century
    assert MAX_TIME + century < largest


def test_clock_is_a_value():
    assert Clock(1, 2, 3) == Clock(1, 2, 3, received=0, final=False)


def test_a_kernel_is_anything_with_tables_and_a_step():
    kernel: type[Kernel] = Group
    assert kernel.tables and kernel.step
