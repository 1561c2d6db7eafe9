package callers

import (
	"container/heap"
	"container/list"
)

// strangers are the connections of callers that have not shown who they are, by caller. The
// listener's lock guards them.
type strangers struct {
	n      int
	groups map[string]*group
	order  groups
	// shared has the connections from addresses that many callers share.
	shared *group
}

// add adds a connection, with a number that is higher than those before.
func (s *strangers) add(c *Conn, seq int, shared bool) {
	s.n++
	if shared {
		if s.shared == nil {
			s.shared = &group{of: s, index: -1}
		}
		s.append(s.shared, c, seq)
		return
	}
	name := At(c.remote).Name
	g := s.groups[name]
	if g == nil {
		g = &group{of: s, name: name}
		if s.groups == nil {
			s.groups = map[string]*group{}
		}
		s.groups[name] = g
		heap.Push(&s.order, g)
	}
	s.append(g, c, seq)
}

// append adds a connection to the end of a group.
func (s *strangers) append(g *group, c *Conn, seq int) {
	c.group, c.seq = g, seq
	c.place = g.conns.PushBack(c)
	if g != s.shared {
		heap.Fix(&s.order, g.index)
	}
}

// remove takes a connection out.
func (s *strangers) remove(c *Conn) {
	g := c.group
	g.conns.Remove(c.place)
	c.group = nil
	s.n--
	switch {
	case g == s.shared:
	case g.conns.Len() > 0:
		heap.Fix(&s.order, g.index)
	default:
		heap.Remove(&s.order, g.index)
		delete(s.groups, g.name)
	}
}

// oldest returns the older one of two connections: the first of the caller with most, and the
// first from a shared address. There is one.
func (s *strangers) oldest() (c *Conn) {
	if s.shared != nil && s.shared.conns.Len() > 0 {
		c = s.shared.conns.Front().Value.(*Conn)
	}
	if len(s.order) > 0 {
		if first := s.order[0].conns.Front().Value.(*Conn); c == nil || first.seq < c.seq {
			return first
		}
	}
	return c
}

// stillest returns, of the connections of the caller with most, the one that has been silent
// longest. Of callers with equal numbers, all are searched. Each search goes on where the
// last one ended. It takes the highest number of a connection, and returns that which is the
// highest then.
func (s *strangers) stillest(last int) (silent *Conn, seq int) {
	seq = last
	for range looked {
		g := s.order[0]
		c := g.conns.Front().Value.(*Conn)
		if c.seq > last {
			break // all have been searched
		}
		if silent == nil || c.used.Load() < silent.used.Load() {
			silent = c
		}
		g.conns.Remove(c.place)
		seq++
		s.append(g, c, seq)
	}
	return silent, seq
}

// group is the connections of one stranger, the one that has been silent longest first,
// as far as is known.
type group struct {
	of    *strangers
	name  string
	conns list.List
	index int
}

// groups is a heap: first the unidentified caller with the most connections, and of several the one
// with the oldest connection.
type groups []*group

// Len implements heap.Interface.
func (g groups) Len() int { return len(g) }

// Less implements heap.Interface.
func (g groups) Less(i, j int) bool {
	if a, b := g[i].conns.Len(), g[j].conns.Len(); a != b {
		return a > b
	}
	return g[i].first() < g[j].first()
}

func (g *group) first() int {
	if f := g.conns.Front(); f != nil {
		return f.Value.(*Conn).seq
	}
	return 0
}

// Swap implements heap.Interface.
func (g groups) Swap(i, j int) {
	g[i], g[j] = g[j], g[i]
	g[i].index, g[j].index = i, j
}

// Push implements heap.Interface.
func (g *groups) Push(x any) {
	one := x.(*group)
	one.index = len(*g)
	*g = append(*g, one)
}

// Pop implements heap.Interface.
func (g *groups) Pop() any {
	old := *g
	last := old[len(old)-1]
	*g = old[:len(old)-1]
	return last
}
