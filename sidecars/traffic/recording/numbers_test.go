package recording

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNumbersAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n numbers
		set := map[uint64]bool{}
		for _, number := range rapid.SliceOf(rapid.Uint64Range(1, 40)).Draw(t, "numbers") {
			if got := n.add(number); got == set[number] {
				t.Fatalf("%d in %v: %v", number, n, got)
			}
			set[number] = true
			for i, s := range n {
				if s.first > s.last || i > 0 && n[i-1].last+1 >= s.first {
					t.Fatalf("%v", n)
				}
			}
		}
	})
	var n numbers
	for i := uint64(1); i <= 100_000; i++ {
		n.add(i ^ 1) // of two, the second first
	}
	if len(n) != 3 { // without 1 and 100,000
		t.Errorf("100,000 numbers are %d spans", len(n))
	}
}
