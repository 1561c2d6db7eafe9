package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/door"
)

// All at once: readers of the log and waiters, more than have room, and readers that take
// nothing, from 20 addresses.
// Another leader begins, and what it states is acknowledged to the manager.
func TestAllAttacksAtOnce(t *testing.T) {
	const addresses, reading, waiting, taking = 20, 600, 160, 400
	w := newSite(t, knowsTheManager)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	read := answers{}
	for i := range reading {
		all.Go(func() {
			read.add(readLog(ctx, from(2+i%addresses), "http://"+w.main.RESTAddress()+"/api/switchyard/v1/log?follow=true", &read))
		})
	}
	for n := range addresses {
		hold(ctx, t, &all, client(t, w.main.GRPCAddress(), byte(2+n)), waiting/addresses)
	}
	for i := range taking {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%50))}}
		c, err := dialer.Dial("tcp", w.main.RESTAddress())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprint(c, "GET /api/v1/workloads/routing-rules HTTP/1.1\r\nHost: routes\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "every reader of the log has an answer", func() bool { return read.sum() == reading })
	manager := client(t, w.main.GRPCAddress(), 200, door.Show(w.token("manager")))
	begun := time.Now()
	leads(t, w)
	t.Logf("readers of the log: %v; a leader began, and was followed, within %s", read.all(), time.Since(begun))
	begun = time.Now()
	eventually(t, "the manager has its answer", func() bool {
		got, err := manager.Wait(ctx, &routingv1.WaitRequest{TimeoutSeconds: 10})
		if status.Code(err) == codes.ResourceExhausted {
			t.Fatalf("strangers keep the manager out: %v", err)
		}
		return err == nil && got.GetConverged()
	})
	t.Logf("the manager had its answer within %s", time.Since(begun))
	if code, _ := get(t, "http://"+w.main.RESTAddress()+"/api/v1/workloads/routing-rules"); code != http.StatusOK {
		t.Errorf("an honest reader of rules got %d", code)
	}
}
