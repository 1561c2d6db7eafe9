//go:build !linux && !darwin

package allow

import "errors"

// Here implements Console: on other systems no question is asked.
func (terminal) Here() bool { return false }

func readable(int) (bool, error) { return false, errors.ErrUnsupported }

func flush(int) error { return errors.ErrUnsupported }
