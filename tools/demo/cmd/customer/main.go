// Command customer is the change that the demo's sandbox brings: HotROD's
// customer service, rewritten by someone who wants one customer more. It
// answers the same request in the same form, and knows customer 900.
package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"
)

type customer struct {
	ID       string
	Name     string
	Location string
}

var customers = map[int]customer{
	123: {"123", "Rachel's_Floral_Designs_(fork)", "115,277"},
	567: {"567", "Amazing_Coffee_Roasters_(fork)", "211,653"},
	392: {"392", "Trom_Chocolatier_(fork)", "577,322"},
	731: {"731", "Japanese_Desserts_(fork)", "728,326"},
	900: {"900", "Switchyard_Model_Railways_(fork)", "501,102"},
}

func main() {
	server := &http.Server{
		Addr:              ":8081",
		Handler:           http.HandlerFunc(find),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      10 * time.Second,
	}
	slog.Info("customer with one customer more", "address", server.Addr)
	if err := server.ListenAndServe(); err != nil {
		slog.Error("cannot serve", "error", err)
		os.Exit(1)
	}
}

func find(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Traceresponse", span(r.Header.Get("Traceparent")))
	id, err := strconv.Atoi(r.FormValue("customer"))
	if err != nil {
		http.Error(w, "Parameter 'customer' is not an integer", http.StatusBadRequest)
		return
	}
	found, ok := customers[id]
	if !ok {
		http.Error(w, "invalid customer ID", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(found); err != nil {
		slog.Warn("the caller went away", "error", err)
	}
}
