package lists

import (
	"maps"
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

func TestFirstIsZeroWithoutAny(t *testing.T) {
	even := func(n int) bool { return n%2 == 0 }
	if got := First([]int{1, 4, 2}, even); got != 4 {
		t.Errorf("%d", got)
	}
	if got := First([]int{1, 3}, even); got != 0 {
		t.Errorf("of no even numbers: %d", got)
	}
}

func TestFlatMapJoinsInOrder(t *testing.T) {
	upTo := func(n int) []int { return slices.Repeat([]int{n}, n) }
	if got := FlatMap([]int{2, 0, 1}, upTo); !slices.Equal(got, []int{2, 2, 1}) {
		t.Errorf("%v", got)
	}
	if got := FlatMap([]int{0}, upTo); got != nil {
		t.Errorf("of no results: %#v, not nil", got)
	}
}

func TestPointersPointIntoTheSlice(t *testing.T) {
	items := []int{1, 2}
	got := Pointers(items)
	if len(got) != 2 || got[0] != &items[0] || got[1] != &items[1] {
		t.Errorf("%v do not point to the items", got)
	}
	if got := Pointers([]int{}); got != nil {
		t.Errorf("of no items: %#v, not nil", got)
	}
}

func TestUniqueSortsAndDropsDuplicates(t *testing.T) {
	if got := Unique([]int{3, 1, 3, 2, 1}); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("%v", got)
	}
}

func TestMergedPrefersTheLast(t *testing.T) {
	first := map[string]int{"a": 1, "b": 1}
	if got := Merged(first, nil, map[string]int{"b": 2}); !maps.Equal(got, map[string]int{"a": 1, "b": 2}) || first["b"] != 1 {
		t.Errorf("%v, of %v", got, first)
	}
	if got := Merged[string, int](nil); got == nil {
		t.Error("of no entries: nil")
	}
}

func TestSetHasTheItems(t *testing.T) {
	if got := Set([]string{"a", "b", "a"}); !maps.Equal(got, map[string]bool{"a": true, "b": true}) {
		t.Errorf("%v", got)
	}
}
