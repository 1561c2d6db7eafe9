//go:build !linux

package process

// left returns the processes of a group that have not ended.
func left(group int) []Left { return listed(group) }
