package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tools/traffic"
)

// CustomerSender returns a Sender of requests to HotROD's customer service; its fork marks the
// responses.
func CustomerSender(base string) traffic.Sender {
	return traffic.Sender{URL: base + "/customer?customer=123", Client: traffic.NewClient(), Judge: judgeCustomer}
}

func judgeCustomer(body []byte) (traffic.Side, error) {
	var answer struct{ ID, Name string }
	if err := json.Unmarshal(body, &answer); err != nil || answer.ID != "123" {
		return "", fmt.Errorf("not an answer of customer: %.200q", body)
	}
	if strings.Contains(answer.Name, "fork") {
		return traffic.Fork, nil
	}
	return traffic.Baseline, nil
}

// Mix returns a load in which no request may be served by the wrong side: with the key, without
// one, and with an undeclared one.
func Mix(key string) []traffic.Want {
	return []traffic.Want{
		{Key: key, Side: traffic.Fork},
		{Key: "", Side: traffic.Baseline},
		{Key: "nobody" + key, Side: traffic.Baseline},
	}
}

// mixed sends 1,000 requests, with key, without, with an unknown key, in turn.
func (s *story) mixed(ctx context.Context) error {
	const requests = 1000
	s.step("%d requests to customer: with the key, without, with an unknown key, in turn", requests)
	ledger := CustomerSender(s.customer).Count(ctx, requests, 8, Mix(routingKey))
	fmt.Printf("   %s\n", ledger)
	s.Add("requests_failed_or_misrouted", fmt.Sprint(ledger.FailedCount+ledger.WrongCount),
		fmt.Sprintf("of %d", ledger.Sent), "0", ledger.Clean())
	return nil
}

// measureChanges measures, 20 times, the time from `kubectl apply` of a RoutingConfig with a new
// key to the first request with that key that the fork serves. The fork's pod runs all the time.
func (s *story) measureChanges(ctx context.Context) error {
	const rounds = 20
	s.step("%d times: kubectl apply of a RoutingConfig, until the first request is served by the fork", rounds)
	fork, err := Kubectl(ctx, "", "get", "forkedworkloads", "-n", "hotrod", "-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		return err
	}
	sender := CustomerSender(s.customer)
	var total, kubectl []time.Duration
	for i := range rounds {
		name := fmt.Sprintf("demo-%d-%d", time.Now().Unix(), i)
		first, applied, err := changeToFirst(ctx, sender, name, fork)
		if err != nil {
			return err
		}
		total, kubectl = append(total, first), append(kubectl, applied)
		if _, err := Kubectl(ctx, "", "delete", "routingconfig", name, "--wait=false"); err != nil {
			return err
		}
	}
	slices.Sort(total)
	slices.Sort(kubectl)
	fmt.Printf("   median %d ms, fastest %d ms, slowest %d ms (of which kubectl itself runs for %d ms)\n",
		total[rounds/2].Milliseconds(), total[0].Milliseconds(), total[rounds-1].Milliseconds(), kubectl[rounds/2].Milliseconds())
	s.Add("apply_to_first_forked_request", fmt.Sprint(total[rounds/2].Milliseconds()), "ms",
		"under 250, median of 20", total[rounds/2] < 250*time.Millisecond)
	return nil
}

// changeToFirst applies one RoutingConfig and returns the time until the fork
// served its key, and until kubectl had ended, both from the start of kubectl.
func changeToFirst(ctx context.Context, sender traffic.Sender, name, fork string) (first, applied time.Duration, err error) {
	manifest := fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"RoutingConfig","metadata":{"name":%q},
"spec":{"sandboxedWorkloads":[{"kind":"ForkedWorkload","namespace":"hotrod","name":%q,"sandboxName":"new-customer"}]}}`, name, fork)
	begin := time.Now()
	done := make(chan error, 1)
	go func() {
		_, err := Kubectl(ctx, manifest, "apply", "-f", "-")
		applied = time.Since(begin)
		done <- err
	}()
	for time.Since(begin) < 20*time.Second {
		side, err := sender.Send(ctx, name)
		if err != nil {
			return 0, 0, fmt.Errorf("while waiting for key %s: %w", name, err)
		}
		if side == traffic.Fork {
			first = time.Since(begin)
			return first, applied, <-done
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, 0, fmt.Errorf("20 s after RoutingConfig %s was applied its key still reaches the baseline", name)
}
