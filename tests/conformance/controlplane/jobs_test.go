package controlplane

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"switchyard.dev/workflows/jobexec/results"
)

const artifactsPath = "/artifacts/jobs/demo-job-1/attempts/0"

// TestDownloads of files of a job, and the end of its streams.
func TestDownloads(t *testing.T) {
	w := newWorld(t)
	of := func(path, space string) string {
		return orgPath + artifactsPath + "/objects/download?" + url.Values{"path": {path}, "space": {space}}.Encode()
	}
	for what, c := range map[string]struct {
		path, want string
		status     int
		headers    []string
	}{
		"a file":               {of("/data/report.txt", "user"), "example artifact", 200, nil},
		"without a space":      {of("@stdout", ""), "example artifact", 200, nil},
		"output":               {of("stdout", "system"), "example artifact", 200, nil},
		"a range":              {of("/data/report.txt", "user"), "artifact", 206, []string{"Range", "bytes=8-15"}},
		"a range of none":      {of("/data/report.txt", "user"), "invalid range", 416, []string{"Range", "bytes=99-"}},
		"one with a problem":   {of("/data/none.txt", "user"), "artifact not found: There is no such file.", 404, nil},
		"one of another space": {of("stdout", "user"), "artifact not found", 404, nil},
		"a path above":         {of("../../other/manifest", "user"), "artifact not found", 404, nil},
		"no path":              {of("", "user"), "path is missing", 400, nil},
		"no such space":        {of("stdout", "all"), "space is", 400, nil},
		"another attempt":      {strings.Replace(of("stdout", "system"), "attempts/0", "attempts/1", 1), "the only one is 0", 404, nil},
		"a job that runs":      {strings.Replace(of("stdout", "system"), "job-1", "job-2", 1), "the job has not ended", 404, nil},
		"a stream":             {orgPath + "/jobs/demo-job-1/attempts/0/logs/stream?type=stderr", `data: {"message":"example artifact\n","cursor":"first.`, 200, nil},
		"its last line":        {orgPath + "/jobs/demo-job-1/attempts/0/logs/stream?tailLines=1", "data: EOF", 200, nil},
		"a stream of none":     {orgPath + "/jobs/demo-job-1/attempts/0/logs/stream?type=all", "type is", 400, nil},
		"a forged cursor":      {orgPath + "/jobs/demo-job-1/attempts/0/logs/stream?cursor=first.MSAw", "the cursor is not one of this stream", 400, nil},
		"a stream of no job":   {orgPath + "/jobs/no-such/attempts/0/logs/stream", "not found", 404, nil},
	} {
		got := w.send("GET", c.path, "", c.headers...)
		if got.status != c.status || !strings.Contains(string(got.body), c.want) {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	if got := w.send("POST", orgPath+artifactsPath+"/objects/upload", ""); got.status != http.StatusNotImplemented {
		t.Errorf("an upload: %d %s", got.status, got.body)
	}
	list := w.send("GET", orgPath+artifactsPath+"?space=user", "")
	if !strings.Contains(string(list.body), `"problem":"There is no such file."`) || strings.Contains(string(list.body), "stdout") {
		t.Errorf("the list: %s", list.body)
	}
	w.must(w.kept.Finish(w.ctx(), org, "demo-job-1", results.Manifest{Files: []results.File{{Path: "/data/lost.txt", Space: results.User}}}))
	if got := w.send("GET", of("/data/lost.txt", "user"), ""); got.status != http.StatusInternalServerError || !strings.Contains(string(got.body), `"error":"the artifact cannot be read"`) {
		t.Errorf("a file that is lost: %d %s", got.status, got.body)
	}
}

// TestAFileIsDescribed by its size, checksum, type and metadata, which clients compare after a download.
func TestAFileIsDescribed(t *testing.T) {
	w := newWorld(t)
	sum := sha256.Sum256([]byte("example artifact\n"))
	want := fmt.Sprintf(`{"checksumSHA256":%q,"contentLength":17,"contentType":"text/html","lastModified":"2026-01-05T09:00:00Z","metadata":{"kind":"report"}}`, base64.StdEncoding.EncodeToString(sum[:]))
	for query, want := range map[string]string{
		"path=/data/report.txt&space=user": want, "path=/data/report.txt": want, "path=@stderr": `"contentType":"text/plain; charset=utf-8"`,
		"path=/data/report.txt&space=system": "artifact not found", "path=/data/none.txt": "artifact not found: There is no such file.", "space=user": "path is missing",
	} {
		got := w.send("GET", orgPath+artifactsPath+"/objects/?"+query, "")
		if !strings.Contains(string(got.body), want) {
			t.Errorf("%s: %d %s, want %s", query, got.status, got.body, want)
		}
	}
}

// TestMembersAndRunnerGroups: a member submits jobs and reads groups, and changes none.
func TestMembersAndRunnerGroups(t *testing.T) {
	w := newWorld(t)
	w.key = memberKey
	const job = `{"spec":{"runnerGroup":"demo-jrg","script":"#!/bin/sh\n","routingContext":{"sandbox":"demo-sb"}}}`
	if got := w.send("POST", orgPath+"/jobs", job); got.status != 200 || !strings.Contains(string(got.body), `"routingKey":"k7w2xq9m4zt1c"`) {
		t.Errorf("a job: %d %s", got.status, got.body)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		if got := w.send(method, orgPath+"/runnergroups/demo-jrg", `{"spec":{"cluster":"demo","image":"i"}}`); got.status != http.StatusForbidden {
			t.Errorf("%s of a group: %d %s", method, got.status, got.body)
		}
	}
	if got := w.send("GET", orgPath+"/sandboxes/demo-sb", ""); !strings.Contains(string(got.body), `"phaseCounts":[{"count":2,"phase":"queued"},{"count":1,"phase":"running"},{"count":1,"phase":"succeeded"}]`) {
		t.Errorf("the sandbox: %s", got.body)
	}
	if got := w.send("GET", orgPath+"/runnergroups/demo-jrg", ""); !strings.Contains(string(got.body), `"executions":{"queued":2,"running":1}`) {
		t.Errorf("the group: %s", got.body)
	}
}
