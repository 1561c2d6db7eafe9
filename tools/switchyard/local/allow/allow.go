package allow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/sandboxes"
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

// Named are the addresses that a user names with flags and files.
type Named struct {
	allow, files []string
	values       sandboxes.Values
	trustAuthor  bool
}

// Flags adds the flags that name them; also is what a file does besides.
func (n *Named) Flags(f *pflag.FlagSet, also string) {
	f.StringArrayVar(&n.allow, "allow", nil, "open this local `address` to the sandboxes that are served: host:port, or a port of localhost; repeatable")
	f.StringArrayVarP(&n.files, "filename", "f", nil, also+"open the addresses of this machine that this `file` of a sandbox names; repeatable")
	n.values.Flags(f, "files")
	f.BoolVar(&n.trustAuthor, "trust-author", true, "open the local addresses that are named by sandboxes you changed last, as the cluster reports; =false does not")
}

// Policy returns the policy that allows these addresses, and the sandboxes of the files.
func (n *Named) Policy(s *command.Session) (policy consent.Policy, served []string, err error) {
	policy.DistrustAuthor = !n.trustAuthor
	for _, text := range n.allow {
		address, err := consent.ParseFlag(text)
		if err != nil {
			return policy, nil, exit.Usage.Errorf("--allow: %w", err)
		}
		policy.Flags = append(policy.Flags, address)
	}
	for _, file := range n.files {
		sandbox, addresses, err := sandboxes.LocalAddresses(s, file, n.values)
		if err != nil {
			return policy, nil, err
		}
		served = append(served, sandbox)
		for _, address := range addresses {
			policy.Named = append(policy.Named, consent.Named{Sandbox: sandbox, Address: address})
		}
	}
	return policy, served, nil
}

// Selection is which sandboxes are served, and which local addresses are opened for them.
type Selection struct {
	Named
	// Sandbox is the sandbox that provides the routing key of requests into the cluster; empty: none.
	Sandbox string
	machine string
	take    []string
}

// Flags adds the flags of a selection.
func (o *Selection) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.Sandbox, "sandbox", "", "only this `sandbox`; HTTP requests into the cluster get its routing key")
	f.StringVar(&o.machine, "machine", "", "only sandboxes with this `id` as the annotation switchyard.dev/machine")
	f.StringArrayVar(&o.take, "take", nil, "serve this `sandbox`, and take over its tunnels from another user; repeatable")
	o.Named.Flags(f, "serve the sandbox, and ")
}

// Wanted returns the request to tunnel-api, and the addresses that flags and files allow.
func (o *Selection) Wanted(s *command.Session) (workstation.Told, consent.Policy, error) {
	told := workstation.Told{Machine: o.machine, Sandboxes: slices.Clone(o.take), Take: o.take, Others: unserved(s)}
	if o.Sandbox != "" {
		told.Sandboxes = append(told.Sandboxes, o.Sandbox)
	}
	policy, sandboxes, err := o.Policy(s)
	told.Sandboxes = append(told.Sandboxes, sandboxes...)
	told.Sandboxes = lists.Unique(told.Sandboxes)
	return told, policy, err
}

// unserved returns a function that writes which sandboxes are not served, whenever that changes.
func unserved(s *command.Session) func([]string, int32) {
	var last string
	return func(names []string, more int32) {
		text := strings.Join(names, ", ")
		if more > 0 {
			text += fmt.Sprintf(", and up to %d more", more)
		}
		if text != last && len(names) > 0 {
			_, _ = io.WriteString(s.Err, show.Line("note: these sandboxes are not served, although you can update them: "+text+
				". Without flags "+s.Name+" connect serves those that you changed last; select others with --sandbox, and those that are bound to a machine with --machine")+"\n")
		}
		last = text
	}
}
