package recording

import "sort"

// numbers is a set of numbers, most of which follow each other. The zero value is empty.
type numbers []span

// span has all numbers from first to last.
type span struct{ first, last uint64 }

// add adds a number, and reports whether it was not in the set.
func (n *numbers) add(number uint64) bool {
	all := *n
	i := sort.Search(len(all), func(i int) bool { return all[i].last+1 >= number }) // The first that has it, or ends before it.
	switch {
	case i < len(all) && all[i].first <= number && number <= all[i].last:
		return false
	case i < len(all) && all[i].last+1 == number:
		if all[i].last++; i+1 < len(all) && all[i+1].first == number+1 {
			all[i].last = all[i+1].last
			*n = append(all[:i+1], all[i+2:]...)
		}
	case i < len(all) && all[i].first == number+1:
		all[i].first--
	default:
		*n = append(all[:i], append(numbers{{number, number}}, all[i:]...)...)
	}
	return true
}
