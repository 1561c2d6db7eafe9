package jobs_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
)

// job returns a job with this spec and status, as YAML.
func job(t testing.TB, spec, status string) *crdv1.Job {
	t.Helper()
	j := &crdv1.Job{}
	text := "metadata: {name: j, uid: u, generation: 1, creationTimestamp: 2026-11-30T08:00:00Z}\nspec: " + spec + "\nstatus: {" + status + "}"
	if err := yaml.UnmarshalStrict([]byte(text), j); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return j
}

const content, in = `content: {script: "#!/bin/sh\necho"}`, "runnerGroup: {namespace: shop, name: tests}"

func TestAccept(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("{path: /a},", 1001), ",")
	for name, tt := range map[string]struct{ spec, retries, want string }{
		"a script":                         {spec: "{" + content + ", " + in + "}"},
		"a command":                        {spec: "{content: {command: [/bin/true, \"\"]}, " + in + "}"},
		"everything":                       {spec: "{" + content + ", " + in + ", timeout: 90s, env: [{name: A}], artifacts: [{path: /tmp/a}, {path: a/..b}], routingContext: {sandboxName: s}}", retries: "2"},
		"neither script nor command":       {spec: "{content: {}, " + in + "}", want: "content has neither a script nor a command."},
		"script and command":               {spec: `{content: {script: "#!/bin/sh", command: [a]}, ` + in + "}", want: "content has a script and a command."},
		"a script without its interpreter": {spec: "{content: {script: echo}, " + in + "}", want: `does not begin with its interpreter, but with "echo"`},
		"a script with an empty one":       {spec: `{content: {script: "#!  \necho"}, ` + in + "}", want: "does not begin with its interpreter"},
		"an interpreter with NUL":          {spec: `{content: {script: "#!/bin/sh\0\n"}, ` + in + "}", want: "NUL byte in its first line"},
		"an empty command":                 {spec: `{content: {command: [""]}, ` + in + "}", want: "begins with an empty text"},
		"a command with NUL":               {spec: `{content: {command: [a, "b\0"]}, ` + in + "}", want: "has a NUL byte"},
		"no group":                         {spec: "{" + content + ", runnerGroup: {namespace: shop}}", want: "runnerGroup needs a name and a namespace."},
		"a reserved variable":              {spec: "{" + content + ", " + in + ", env: [{name: A}, {name: SIGNADOT_ROUTING_KEY}]}", want: `env[1]: the name "SIGNADOT_ROUTING_KEY" begins with SIGNADOT_`},
		"a variable without a name":        {spec: "{" + content + ", " + in + ", env: [{value: x}]}", want: "env[0]"},
		"a variable with =":                {spec: "{" + content + ", " + in + ", env: [{name: a=b}]}", want: "env[0]"},
		"a sandbox and a route group":      {spec: "{" + content + ", " + in + ", routingContext: {sandboxName: s, routegroupName: r}}", want: "Name one of them."},
		"a timeout that is no duration":    {spec: "{" + content + ", " + in + ", timeout: 10}", want: `timeout "10"`},
		"a timeout of nothing":             {spec: "{" + content + ", " + in + ", timeout: 0s}", want: `timeout "0s"`},
		"an artifact above":                {spec: "{" + content + ", " + in + ", artifacts: [{path: a/../../b}]}", want: `has a part ".."`},
		"an artifact without a path":       {spec: "{" + content + `, ` + in + `, artifacts: [{path: ""}]}`, want: "artifacts[0]"},
		"a folder":                         {spec: "{" + content + ", " + in + ", artifacts: [{path: /tmp/}]}", want: "is a folder"},
		"an artifact with a stream's name": {spec: "{" + content + ", " + in + `, artifacts: [{path: "@stdout"}]}`, want: "Write ./@stdout."},
		"a file twice":                     {spec: "{" + content + ", " + in + ", artifacts: [{path: /tmp/a}, {path: /tmp//a}]}", want: "artifacts[1]"},
		"too many artifacts":               {spec: "{" + content + ", " + in + ", artifacts: [" + many + "]}", want: "at most 1000"},
		"much metadata":                    {spec: "{" + content + ", " + in + ", artifacts: [{path: a, meta: {k: " + strings.Repeat("x", 512<<10-2) + "}}]}"},
		"too much metadata":                {spec: "{" + content + ", " + in + ", artifacts: [{path: a, meta: {k: " + strings.Repeat("x", 512<<10-1) + "}}]}", want: "524289 bytes together"},
		"retries that are no number":       {spec: "{" + content + ", " + in + "}", retries: "-1", want: crdv1.AnnotationRetries},
		"too many retries":                 {spec: "{" + content + ", " + in + "}", retries: "11", want: "from 0 to 10"},
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t, tt.spec, "")
			j.Annotations = map[string]string{crdv1.AnnotationRetries: tt.retries}
			got := jobs.Accept(j)
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzAccept(f *testing.F) {
	f.Add("#!/bin/sh\necho", "/tmp/a", "A", "1m", "1")
	f.Add("#!\x00", "@", "SIGNADOT_", "-", "\xff")
	f.Fuzz(func(t *testing.T, script, path, variable, timeout, retries string) {
		j := &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{crdv1.AnnotationRetries: retries}}, Spec: crdv1.JobSpec{
			Content: crdv1.JobContent{Script: script, Command: []string{path}}, Artifacts: []crdv1.JobArtifact{{Path: path}},
			Env: []crdv1.JobEnv{{Name: variable}}, Timeout: timeout,
		}}
		for _, p := range jobs.Accept(j) {
			if !strings.HasSuffix(p, ".") || len(p) > 1000 {
				t.Errorf("%q", p)
			}
		}
	})
}
