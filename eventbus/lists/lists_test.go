package lists

import (
	"slices"
	"strconv"
	"testing"
)

func TestMapKeepsTheOrder(t *testing.T) {
	if got := Map([]int{2, 1}, strconv.Itoa); !slices.Equal(got, []string{"2", "1"}) {
		t.Errorf("%q", got)
	}
	if got := Map([]int{}, strconv.Itoa); got != nil {
		t.Errorf("of no items: %#v, not nil", got)
	}
}

func TestFilterLeavesItsItemsAlone(t *testing.T) {
	odd := func(n int) bool { return n%2 == 1 }
	items := []int{2, 1, 4, 3}
	if got := Filter(items, odd); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("%v", got)
	}
	if !slices.Equal(items, []int{2, 1, 4, 3}) {
		t.Errorf("the items became %v", items)
	}
	if got := Filter([]int{2}, odd); got != nil {
		t.Errorf("of no odd numbers: %#v, not nil", got)
	}
}
