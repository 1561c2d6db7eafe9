// Package problems has the type of problems that users fix. It is pure.
package problems

// Problem is a problem with what a user requested or configured.
type Problem struct {
	// Reason is one CamelCase word for programs; empty where only users read the problem.
	Reason string `json:"reason"`
	// Message describes the problem and the object, and the remedy unless Fix does.
	Message string `json:"message"`
	// Fix is the remedy, where it is shown apart from the problem.
	Fix string `json:"fix,omitempty"`
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Fix == "" {
		return p.Message
	}
	return p.Message + ": " + p.Fix
}
