package sniff

import (
	"slices"
	"testing"
)

type closer struct {
	name   string
	closed *[]string
}

func (c closer) Close() error {
	*c.closed = append(*c.closed, c.name)
	return nil
}

func TestTheOldestSilentConnectionMakesRoom(t *testing.T) {
	var closed []string
	var s silent
	add := func(name string) (leave func()) { return s.add(closer{name, &closed}, 2) }
	leaveA := add("a")
	add("b")
	leaveA()
	add("c") // there is room
	if len(closed) > 0 {
		t.Fatalf("%q were closed, and there was room", closed)
	}
	add("d")
	leaveE := add("e")
	if want := []string{"b", "c"}; !slices.Equal(closed, want) {
		t.Errorf("%q were closed, want %q", closed, want)
	}
	leaveA()
	leaveE()
	if s.order.Len() != 1 {
		t.Errorf("%d are left, want d alone", s.order.Len())
	}
}
