package main

import (
	"fmt"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// record records an event of the browser.
func (b *Browser) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	console := func(format string, args ...any) {
		b.traffic.Console = append(b.traffic.Console, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *fetch.EventRequestPaused:
		go b.paused(e)
	case *network.EventRequestWillBeSent:
		b.open[e.RequestID] = len(b.traffic.Requests)
		b.traffic.Requests = append(b.traffic.Requests, Request{URL: e.Request.URL, Document: e.DocumentURL, Kind: string(e.Type)})
	case *network.EventResponseReceived:
		b.received(e.RequestID, e.Response.EncodedDataLength, false)
	case *network.EventDataReceived:
		b.received(e.RequestID, float64(e.EncodedDataLength), false)
	case *network.EventLoadingFinished:
		b.received(e.RequestID, e.EncodedDataLength, true)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			console("%s %s", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError && len(e.Args) > 0 {
			console("console.error: %s %s", e.Args[0].Value, e.Args[0].Description)
		}
	case *runtime.EventExceptionThrown:
		console("exception: %s", exception(e.ExceptionDetails))
	}
}

// received adds bytes to a request; all: they are all that it has received. A stream is never finished.
func (b *Browser) received(id network.RequestID, bytes float64, all bool) {
	i, is := b.open[id]
	if !is {
		return
	}
	if all {
		b.traffic.Requests[i].Bytes = 0
	}
	b.traffic.Requests[i].Bytes += bytes
}

// exception returns the text of an exception that nothing caught.
func exception(e *runtime.ExceptionDetails) string {
	if e.Exception != nil {
		return e.Text + " " + e.Exception.Description
	}
	return e.Text
}
