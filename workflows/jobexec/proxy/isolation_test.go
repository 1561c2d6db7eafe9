package proxy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/client"
)

// contained starts the executor as the main container has it: with processes and mounts of its own, without the store
// and the token (jobpod mounts them in the proxy alone), and with the network of the proxy.
func contained(t *testing.T) (*world, *client.Client) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	w := newWorld(t)
	tokens := filepath.Join(w.dir, "secrets")
	w.must(os.Mkdir(tokens, 0o700))
	w.must(os.Rename(filepath.Join(w.dir, "token"), filepath.Join(tokens, "token")))
	w.must(os.MkdirAll(w.store, 0o700))
	w.tokenFile = filepath.Join(tokens, "token")
	hide := ""
	for _, dir := range []string{tokens, w.store} {
		hide += fmt.Sprintf("mount -t tmpfs none %q && ", dir)
	}
	w.before = []string{"unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", hide + `exec "$@"`, "sh"}
	w.startExecutor()
	w.startProxy()
	c := w.controller()
	w.ready(c)
	return w, c
}

// A script that runs as root finds neither the token of its pod nor what the store has of another job: not in files,
// not in processes, not at the socket, not at the ports of the proxy, and not by naming them as artifacts.
func TestAScriptGetsNothingOfTheProxy(t *testing.T) {
	w, c := contained(t)
	const secret = "secret-of-another-job"
	first := request("first", "echo "+secret, "echo "+secret+" >artifact", "echo "+secret+" >&2")
	first.Artifacts = []*jobexecv1.ArtifactSpec{{Path: "artifact"}}
	w.run(c, first)
	if end := w.end(c, first.Ref); end.GetEnding().GetReason() != "" || end.GetArtifacts()[0].GetProblem() != "" {
		t.Fatalf("the first ended with %v", end)
	}
	w.must(os.Remove(filepath.Join(w.dir, "home", "artifact"))) // jobs of a pod share the files of the container
	files := []string{
		w.tokenFile, filepath.Join(w.store, "first_1", "files", "0"), filepath.Join(w.store, "first_1", "stdout", "0"),
		"/proc/1/root" + w.tokenFile, "/proc/1/environ", "link",
	}
	thief := request("thief",
		"cat "+strings.Join(files, " "), "grep -rs . "+w.store+" "+filepath.Dir(w.tokenFile)+" "+w.volume+"/begun",
		"for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ; tr '\\0' ' ' <$p/cmdline; ls -l $p/fd; done; ls /proc",
		"for s in stdout stderr; do curl -s --unix-socket "+w.volume+"/run/executor.sock http://x/v1/executions/first/1/$s?offset=0; done",
		"curl -s --unix-socket "+w.volume+"/run/executor.sock http://x/v1/executions/first/1 http://x/v1/executor http://x/v1/file?path="+w.tokenFile,
		"for m in Logs Artifact Artifacts Watch Runner; do printf '\\0\\0\\0\\0\\0' | curl -sk -i --http2 -m 5 -H 'content-type: application/grpc' -H 'te: trailers' --data-binary @- https://"+w.address+"/switchyard.jobexec.v1.Executor/$m; done",
		"for path in metrics healthz readyz debug/pprof/ ; do curl -s http://"+w.health+"/$path http://"+w.routing+"/$path; done",
		"ln -s "+w.tokenFile+" link", "exit 0")
	for _, path := range files {
		thief.Artifacts = append(thief.Artifacts, &jobexecv1.ArtifactSpec{Path: path})
	}
	w.run(c, thief)
	end := w.end(c, thief.Ref)
	got := w.logs(c, thief.Ref, stdout) + w.logs(c, thief.Ref, stderr)
	for _, a := range end.GetArtifacts() {
		if a.GetProblem() == "" {
			var text strings.Builder
			_, err := c.Artifact(t.Context(), &jobexecv1.ArtifactRequest{Ref: thief.Ref, Path: a.GetPath()}, client.To(&text, 0, true))
			w.must(err)
			got += text.String()
		}
	}
	for what, text := range map[string]string{"the token": token, "what another job printed": secret} {
		if at := strings.Index(got, text); at >= 0 {
			t.Errorf("a script gets %s: %q", what, got[max(0, at-200):min(len(got), at+200)])
		}
	}
	// The attempts were made: without their answers, the check above shows nothing.
	for _, says := range []string{"No such file", `"reason":"Lost"`, `"phase"`, "grpc-status: 16", "show one ticket"} {
		if !strings.Contains(got, says) {
			t.Errorf("no attempt is answered with %q", says)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}
