package allow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/consent"
)

// Config is what Addresses need.
type Config struct {
	// Policy is what flags and files allow.
	Policy consent.Policy
	// Console is where questions are asked; nil: none is.
	Console Console
	// Err receives a line for each pod or user that opened an address.
	Err io.Writer
	// File remembers the answers; empty: they are not remembered.
	File string
	// Command and End are the begin and the end of the command that allows an address, for messages.
	Command, End string
}

// Addresses are the local addresses that the user agreed to open. Make them with New, and Run them
// beside the workstation. They are safe for concurrent use.
type Addresses struct {
	cfg       Config
	questions chan consent.Request

	mu     sync.Mutex
	policy consent.Policy
	asked  map[question]bool
	closed bool                  // whether the console has ended
	opened []workstation.Opening // the oldest first
	forgot bool                  // whether one was forgotten
}

// question identifies an address that is asked about once.
type question struct{ uid, address string }

// maxQuestions is how many questions wait for an answer; further addresses are refused.
const maxQuestions = 256

// New returns Addresses. It returns an error if the remembered answers cannot be used.
func New(cfg Config) (*Addresses, error) {
	answers, err := read(cfg.File)
	if err != nil {
		return nil, err
	}
	a := &Addresses{cfg: cfg, policy: cfg.Policy, questions: make(chan consent.Request, maxQuestions), asked: map[question]bool{}}
	a.policy.Answers = answers
	return a, nil
}

// Decide implements workstation.Config.Consent.
func (a *Addresses) Decide(r consent.Request) consent.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.policy.Decide(r)
	if d.Verdict != consent.Ask {
		return d
	}
	if a.cfg.Console == nil || a.closed || !a.cfg.Console.Here() {
		return consent.Decision{Why: fmt.Sprintf("%s is not opened to the cluster: sandbox %s has another or no known author. Open it with %s --sandbox %s --allow %s%s",
			r.Address, r.Sandbox, a.cfg.Command, r.Sandbox, r.Address, a.cfg.End)}
	}
	key := question{r.UID, consent.Canonical(r.Address)}
	if !a.asked[key] {
		select {
		case a.questions <- r:
			a.asked[key] = true
		default:
		}
	}
	d.Why = r.Address + " waits for your answer on the terminal"
	return d
}

// Run asks the questions until ctx or the console ends, and calls changed after each answer.
func (a *Addresses) Run(ctx context.Context, changed func(context.Context)) {
	if a.cfg.Console == nil {
		return
	}
	for {
		select {
		case r := <-a.questions:
			text := show.Line(fmt.Sprintf("Open %s to the cluster for sandbox %s (workload %s)? You are not known to be its author. [y/N]", r.Address, r.Sandbox, r.Workload))
			line, err := a.cfg.Console.Ask(ctx, text+" ")
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				a.answer(r, strings.EqualFold(strings.TrimSpace(line), "y") || strings.EqualFold(strings.TrimSpace(line), "yes"))
			case errors.Is(err, errAway):
				a.again(r)
			default:
				a.mu.Lock()
				a.closed = true
				a.mu.Unlock()
				_, _ = io.WriteString(a.cfg.Err, "\n")
			}
			changed(ctx)
			if err != nil && !errors.Is(err, errAway) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// again makes Decide ask a question again once the program is in the foreground.
func (a *Addresses) again(r consent.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asked, question{r.UID, consent.Canonical(r.Address)})
}

// answer notes and remembers an answer.
func (a *Addresses) answer(r consent.Request, yes bool) {
	one := consent.Answer{UID: r.UID, Address: consent.Canonical(r.Address), Allowed: yes, Sandbox: r.Sandbox}
	if err := remember(a.cfg.File, one); err != nil {
		_, _ = io.WriteString(a.cfg.Err, show.Line("note: the answer is not remembered: "+err.Error())+"\n")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.policy.Answers = append(a.policy.Answers[:len(a.policy.Answers):len(a.policy.Answers)], one)
}

// maxOpened is how many openings are known as written; the oldest are forgotten first.
const maxOpened = 1000

// Opened implements workstation.Config.Opened: it prints the pod or user that opened an address,
// once for each.
func (a *Addresses) Opened(o workstation.Opening) {
	from := o.From
	if colon := strings.LastIndexByte(from, ':'); colon > 0 {
		from = from[:colon]
	}
	if o.User != "" {
		from = ""
	}
	o.From = from
	a.mu.Lock()
	known := slices.Contains(a.opened, o)
	if !known {
		a.opened = append(a.opened, o)
	}
	first := false
	if len(a.opened) > maxOpened {
		a.opened, first, a.forgot = a.opened[1:], !a.forgot, true
	}
	a.mu.Unlock()
	if first {
		_, _ = fmt.Fprintf(a.cfg.Err, "note: more than %d callers opened addresses: earlier ones may be written again\n", maxOpened)
	}
	if known {
		return
	}
	who := "the pod at " + from
	if o.User != "" {
		who = "user " + o.User
	}
	_, _ = io.WriteString(a.cfg.Err, show.Line(fmt.Sprintf("%s/%s: %s opened %s", o.Sandbox, o.Workload, who, o.Address))+"\n")
}
