package jobs

import (
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestAJobIsJudgedByItsLedger(t *testing.T) {
	ended := func(count int32, end crdv1.JobTerminated) crdv1.JobStatus {
		end.Reason, end.Message = "R", "m"
		return crdv1.JobStatus{Execution: &crdv1.JobExecution{Count: count, PodUID: "pod"}, State: &crdv1.JobState{Terminated: &end}}
	}
	losing := func(s crdv1.JobStatus) crdv1.JobStatus {
		s.Execution.Output = &crdv1.JobOutput{State: crdv1.OutputLost, Message: "m"}
		return s
	}
	success, failed, lost := crdv1.JobTerminated{Success: true, ExitCode: new(int32)}, crdv1.JobTerminated{ExitCode: new(int32(3))}, crdv1.JobTerminated{Retryable: true}
	for name, tt := range map[string]struct {
		ledger string
		status crdv1.JobStatus
		asked  asked
		struck bool
		shown  shown
		found  string
	}{
		"a success":                            {ledger: "j begun\nj end 0\n", status: ended(1, success)},
		"a false success":                      {ledger: "j begun\n", status: ended(1, success), found: "has not done its work"},
		"one that ran twice in one execution":  {ledger: "j begun\nj begun\nj end 0\n", status: ended(1, success), found: "begun 2 times"},
		"one that ran twice in two":            {ledger: "j begun\nj begun\nj end 0\n", status: ended(2, success), asked: asked{retries: 1}, struck: true},
		"one that ran again without a request": {ledger: "j begun\nj begun\nj end 0\n", status: ended(2, success), found: "may have 1"},
		"one that ended twice":                 {ledger: "j begun\nj end 0\nj begun\nj end 0\n", status: ended(2, success), found: "end 2 times"},
		"a failure":                            {ledger: "j begun\nj end 3\n", status: ended(1, failed), asked: asked{code: 3}},
		"a false failure":                      {ledger: "j begun\n", status: ended(1, failed), asked: asked{code: 3}, found: "has not come to its end"},
		"a lost one":                           {ledger: "j begun\n", status: ended(1, lost), struck: true},
		"one that was lost by itself":          {ledger: "j begun\n", status: ended(1, lost), found: "nothing of its pod"},
		"one that runs":                        {ledger: "j begun\n", status: crdv1.JobStatus{}, found: "has not ended"},
		"a success that is shown":              {ledger: "j begun\nj end 0\n", status: ended(1, success), asked: asked{shown: true}, shown: shown{"succeeded", 1, "j\n"}},
		"one that is shown as another":         {ledger: "j begun\nj end 0\n", status: ended(1, success), asked: asked{shown: true}, shown: shown{"failed", 1, "j\n"}, found: "shows it as failed"},
		"one that is shown with another count": {ledger: "j begun\nj end 0\n", status: ended(1, success), asked: asked{shown: true}, shown: shown{"succeeded", 2, "j\n"}, found: "with 2 executions"},
		"one without its output":               {ledger: "j begun\nj end 0\n", status: ended(1, success), asked: asked{shown: true}, shown: shown{"succeeded", 1, "x\n"}, found: "has the output"},
		"one with a lost output":               {ledger: "j begun\nj end 0\n", status: losing(ended(1, success)), asked: asked{shown: true}, shown: shown{"succeeded", 1, ""}},
		"one that is not shown":                {ledger: "j begun\nj end 0\n", status: ended(1, success), asked: asked{shown: true}, found: "shows it as  with 0"},
		"a stranger":                           {ledger: "j begun\nj end 0\nx begun\n", status: ended(1, success), found: "which was not submitted"},
	} {
		t.Run(name, func(t *testing.T) {
			ran, err := read(tt.ledger)
			if err != nil {
				t.Fatal(err)
			}
			got := evidence{asked: map[string]asked{"j": tt.asked}, ledger: ran, jobs: map[string]crdv1.JobStatus{"j": tt.status}, struck: map[string]bool{"pod": tt.struck}, shown: map[string]shown{"j": tt.shown}}.judge()
			if all := strings.Join(got.findings, "\n"); tt.found == "" && all != "" || !strings.Contains(all, tt.found) {
				t.Errorf("%q is found, want %q", all, tt.found)
			}
		})
	}
	if _, err := read("j\n"); err == nil {
		t.Error("a line that is none is read")
	}
}
