package certificates

import "context"

// Check reads and renews once.
func (s *Source) Check(ctx context.Context) { s.check(ctx) }
