package web

import (
	"net/http"
	"net/url"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/routeserver/page"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/recording"
)

// mostShown is how many requests of a capture are shown.
const mostShown = 100

// capture is the content of the page of a capture. All are its newest requests; More: there are older ones. Archive is the command that
// downloads all, and Unread why they cannot be read. Execution is the test execution of which they are; empty: of all.
type capture struct {
	captures.Capture
	Execution, Identity, Archive, Unread string
	All                                  []published.Meta
	More                                 bool
}

// captureState is the phase of a capture, in the words of the API. It is bad if the capture has ended before it began, not by a user.
func captureState(c captures.Capture) page.State {
	if !c.EndedAt.IsZero() && !c.Progress.Ready && c.StoppedAt.IsZero() {
		return page.State{Kind: "bad", Text: "Ended"}
	}
	return map[string]page.State{"ended": {Text: "Ended"}, "recording": {Kind: "ok", Text: "Recording"}, "pending": {Kind: "wait", Text: "Pending"}}[c.Phase()]
}

func (r *request) listCaptures() (err error) {
	var all []captures.Capture
	if r.Captures != nil {
		if all, err = r.Captures.Store.Captures(r.Context(), r.by.Org, ""); err != nil {
			return err
		}
	}
	some, pages := paged(r.URL, all)
	begin := r.curl(r.by.Org, "") + ` -d '{"spec": {"sandbox": "SANDBOX", "duration": "10m"}}'`
	return r.show(http.StatusOK, "/captures", "Captures", "captures", map[string]any{"Rows": some, "Pages": pages, "Begin": begin, "Off": r.Captures == nil})
}

// curl returns the command for the captures of an organisation, at a path below.
func (r *request) curl(org, path string) string {
	return `curl -H "signadot-api-key: $KEY" https://` + r.Host + "/api/v2/orgs/" + url.PathEscape(org) + "/captures" + path
}

func (r *request) showCapture() error {
	if r.Captures == nil {
		return r.none("/captures", "capture")
	}
	c, err := r.Captures.Store.Capture(r.Context(), r.by.Org, r.PathValue("name"))
	if missing(err) {
		return r.none("/captures", "capture")
	} else if err != nil {
		return err
	}
	all, err := r.Captures.Store.Newest(r.Context(), r.Captures.Files, c, mostShown)
	of := capture{Capture: c, Execution: smarttests.ExecutionOf(c.Name), All: all, Identity: recording.Identity(c.Progress.Counts), Archive: r.curl(c.Org, "/"+url.PathEscape(c.Name)+"/har") + " -o " + c.Name + ".har", More: c.Requests > int64(len(all))}
	if err != nil {
		r.Logger.WarnContext(r.Context(), "The requests of a capture cannot be read for a page.", "organisation", c.Org, "capture", c.Name, "error", err)
		of.Unread = "The requests cannot be read now. The log of the control plane has the error."
	}
	return r.show(http.StatusOK, "/captures", c.Name+": "+c.Phase(), "capture", of)
}
