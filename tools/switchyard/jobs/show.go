package jobs

import (
	"fmt"
	"strings"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
)

// text returns an optional text.
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// against returns what a job runs against.
func against(j v2.Job) string {
	if c := j.Spec.RoutingContext; c != nil && text(c.Sandbox) != "" {
		return "sandbox " + *c.Sandbox
	} else if c != nil && text(c.Routegroup) != "" {
		return "route group " + *c.Routegroup
	}
	return "the baseline"
}

// message returns why a job is in its phase.
func message(j v2.Job) string {
	switch st := now(j).State; {
	case st.Queued != nil:
		return text(st.Queued.Message)
	case st.Failed != nil && st.Failed.ExitCode != nil:
		code, said := fmt.Sprintf("exit code %d", *st.Failed.ExitCode), text(st.Failed.Message)
		if strings.Contains(said, code) {
			return said
		}
		return code + ": " + said
	case st.Failed != nil:
		return text(st.Failed.Message)
	case st.Canceled != nil:
		return text(st.Canceled.Message)
	}
	return ""
}

// jobText returns a job as text.
func jobText(s *command.Session, j v2.Job, files []v2.JobArtifact) string {
	a := now(j)
	rows := show.Grid{{"Name:", j.Name}, {"Runner group:", text(j.Spec.RunnerGroup)}, {"Against:", against(j)}, {"State:", string(a.Phase)}}
	for _, row := range []struct{ title, value string }{
		{"Message:", message(j)}, {"Created:", s.Moment(j.CreatedAt)}, {"Started:", s.Moment(text(a.StartedAt))}, {"Ended:", s.Moment(text(a.FinishedAt))},
	} {
		if row.value != "" {
			rows = append(rows, []string{row.title, row.value})
		}
	}
	if a.ExecutionCount > 1 {
		rows = append(rows, []string{"Executions:", fmt.Sprint(a.ExecutionCount)})
	}
	if r := a.State.Running; r != nil {
		rows = append(rows, []string{"Pod:", text(r.PodNamespace) + "/" + text(r.PodName)})
	}
	if len(files) > 0 && text(files[0].ExpiresAt) != "" {
		rows = append(rows, []string{"Kept until:", s.Moment(*files[0].ExpiresAt) + " at the latest"})
	}
	for _, f := range files {
		line := f.Path
		if f.Space == "system" {
			line = "@" + f.Path
		}
		switch {
		case text(f.Problem) != "":
			line += ": not stored: " + *f.Problem
		case f.Size != nil:
			line += fmt.Sprintf(", %d bytes", *f.Size)
		}
		rows = append(rows, []string{"Artifact:", line})
	}
	return rows.String()
}

// jobRows returns jobs as a table.
func jobRows(s *command.Session, jobs []v2.Job) string {
	rows := show.Grid{{"NAME", "RUNNER GROUP", "AGAINST", "STATE", "CREATED", "MESSAGE"}}
	for _, j := range jobs {
		rows = append(rows, []string{j.Name, text(j.Spec.RunnerGroup), against(j), string(now(j).Phase), s.Moment(j.CreatedAt), message(j)})
	}
	return rows.String()
}
