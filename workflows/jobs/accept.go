package jobs

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobexec/artifacts"
)

// Bounds of a specification.
const (
	mostRetries = 10
	// shown is the maximum number of bytes of a user's text in a message, and longestReason that of an error's.
	shown         = 64
	longestReason = 1024
)

// reserved begins the names of variables that only the operator sets.
const reserved = "SIGNADOT_"

// Accept returns the problems of a Job that keep it from running, each as a sentence with the remedy.
func Accept(j *crdv1.Job) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if g := j.Spec.RunnerGroup; g.Name == "" || g.Namespace == "" {
		add("runnerGroup needs a name and a namespace.")
	}
	acceptContent(j.Spec.Content, add)
	for i, v := range j.Spec.Env {
		switch {
		case v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.Contains(v.Value, "\x00"):
			add("env[%d]: %s is not a variable: a name is not empty and has no \"=\", and neither it nor the value has NUL bytes.", i, quoted(v.Name))
		case strings.HasPrefix(v.Name, reserved):
			add("env[%d]: the name %s begins with %s, which is reserved for the operator's variables. Use another name.", i, quoted(v.Name), reserved)
		}
	}
	if c := j.Spec.RoutingContext; c != nil && c.SandboxName != "" && c.RouteGroupName != "" {
		add("routingContext names a sandbox and a route group. Name one of them.")
	}
	if text := j.Spec.Timeout; text != "" {
		if d, err := time.ParseDuration(text); err != nil || d <= 0 {
			add("timeout %s is not a duration above 0, such as 90s or 1h30m.", quoted(text))
		}
	}
	acceptArtifacts(j.Spec.Artifacts, add)
	if _, err := retries(j); err != nil {
		add("%v.", err)
	}
	return out
}

// acceptContent adds the problems of the script or command.
func acceptContent(c crdv1.JobContent, add func(string, ...any)) {
	first, _, _ := strings.Cut(c.Script, "\n")
	interpreter, shebang := strings.CutPrefix(first, "#!")
	switch {
	case c.Script == "" && len(c.Command) == 0:
		add("content has neither a script nor a command. Set one of them.")
	case c.Script != "" && len(c.Command) > 0:
		add("content has a script and a command. Remove one of them.")
	case c.Script != "" && (!shebang || strings.TrimSpace(interpreter) == ""):
		add("content.script does not begin with its interpreter, but with %s. Begin it with a line such as #!/bin/sh.", quoted(first))
	case strings.Contains(first, "\x00"):
		add("content.script has a NUL byte in its first line. Remove it.")
	case c.Script == "" && c.Command[0] == "":
		add("content.command begins with an empty text. Begin it with the program.")
	case slices.ContainsFunc(c.Command, func(arg string) bool { return strings.Contains(arg, "\x00") }):
		add("content.command has a NUL byte, which no program can get. Remove it.")
	}
}

// acceptArtifacts adds the problems of the artifacts.
func acceptArtifacts(all []crdv1.JobArtifact, add func(string, ...any)) {
	if err := artifacts.Refused(specsOf(all)); err != nil {
		add("artifacts is refused: %v.", err)
		return
	}
	seen := map[string]int{}
	for i, a := range all {
		clean := path.Clean(a.Path)
		before, double := seen[clean]
		seen[clean] = i
		if err := artifacts.Check(a.Path); err != nil {
			add("artifacts[%d]: %s %v.", i, quoted(a.Path), err)
		} else if double {
			add("artifacts[%d]: %s is the file of artifacts[%d]. Remove one of them.", i, quoted(a.Path), before)
		}
	}
}

// retries returns how many times the script may run again after an outcome that cannot be proved.
func retries(j *crdv1.Job) (int32, error) {
	text := j.Annotations[crdv1.AnnotationRetries]
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n > mostRetries {
		return 0, fmt.Errorf("the annotation %s is %s, and not a number from 0 to %d", crdv1.AnnotationRetries, quoted(text), mostRetries)
	}
	return int32(n), nil
}

// quoted returns a text for a message, in quotes and cut.
func quoted(text string) string { return fmt.Sprintf("%q", cut(text, shown)) }

// cut returns the first bytes of a text.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
