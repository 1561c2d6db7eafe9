package keeper_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"switchyard.dev/tools/traffic"
)

// While other keys come and go, and the server of routes with them, requests of
// a standing key, of none and of an unknown one are all served by the right side.
func TestChangesUnderLoadFailNoRequest(t *testing.T) {
	r := start(t, sandbox("k1", "10.96.5.1:80", 8080))
	r.serveHTTP(r.fork("10.96.5.1:80"), "fork")
	sender := traffic.Sender{
		URL:    "http://" + r.address + ":8080/",
		Client: traffic.NewClient(),
		Judge: func(body []byte) (traffic.Side, error) {
			var said echo
			if err := json.Unmarshal(body, &said); err != nil {
				return "", err
			}
			return traffic.Side(said.Side), nil
		},
	}
	wants := []traffic.Want{
		{Key: "k1", Side: traffic.Fork}, {Side: traffic.Baseline}, {Key: "unknown", Side: traffic.Baseline},
	}
	loaded := make(chan *traffic.Ledger, 1)
	go func() { loaded <- sender.Count(t.Context(), 6000, 8, wants) }()
	for i := range 40 {
		r.Board.Declare(sandbox(fmt.Sprintf("other-%d", i), "10.96.5.1:80", 8080))
		if i%4 == 3 {
			r.Board.Withdraw(fmt.Sprintf("other-%d", i-1))
		}
		if i%10 == 9 {
			r.acked()
			r.stopXDS()
			r.serveXDS()
		}
	}
	ledger := <-loaded
	t.Log(ledger)
	if !ledger.Clean() {
		t.Error("requests failed or went to the wrong side")
	}
	r.acked()
	r.expect("fork", 8080, key("other-39"))
	r.expect("baseline", 8080, key("other-38"))
}
