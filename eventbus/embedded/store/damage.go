package store

// Damage is the reason why a store cannot be used.
type Damage string

// The kinds of damage.
const (
	// Missing: the log existed and was removed.
	Missing Damage = "missing"
	// Rewound: the log ends before a place that it had reached.
	Rewound Damage = "rewound"
	// Altered: an event is missing, or differs from the recorded one, or from the one that is
	// known to have been there.
	Altered Damage = "altered"
	// Unreadable: the server cannot read the store, or finds something there that
	// is no log.
	Unreadable Damage = "unreadable"
	// Unfinished: the last openings of the store never ended: the program died
	// or hung in each of them.
	Unfinished Damage = "unfinished"
)

// Damages are all kinds of damage.
var Damages = []Damage{Missing, Rewound, Altered, Unreadable, Unfinished}

// DamageError is the error of a store that cannot be used.
type DamageError struct {
	Kind Damage
	Why  error
}

// Error implements error.
func (d DamageError) Error() string { return d.Why.Error() }

// Unwrap returns the reason.
func (d DamageError) Unwrap() error { return d.Why }
