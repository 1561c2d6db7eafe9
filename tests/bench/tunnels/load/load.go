// Package load sends requests to the service that echoes, one after another and at a rate.
package load

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Echoes asks and answers 64 bytes, one after another.
func Echoes(c net.Conn, roundTrip time.Duration) (times []time.Duration, err error) {
	rounds := 3000
	if roundTrip > 0 {
		rounds = int(3 * time.Second / roundTrip)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 64)
	for range rounds {
		began := time.Now()
		if _, err := c.Write(buf); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// OnKept returns a function that sends a request on one of some connections that has none.
func OnKept(conns []net.Conn) func() error {
	free := make(chan net.Conn, len(conns))
	for _, c := range conns {
		free <- c
	}
	return func() error {
		c := <-free
		defer func() { free <- c }()
		return Request(c)
	}
}

// Request sends 64 bytes, and reads as many.
func Request(c net.Conn) error {
	buf := make([]byte, 64)
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write(buf); err != nil {
		return err
	}
	_, err := io.ReadFull(c, buf)
	return err
}

// AtRate begins so many requests a second, whether or not others have ended, and returns how long after
// its time each ended.
func AtRate(perSecond int, duration time.Duration, do func() error) (times []time.Duration, err error) {
	var lock sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for due := time.Duration(0); due < duration; due += time.Second / time.Duration(perSecond) {
		time.Sleep(time.Until(began.Add(due)))
		all.Go(func() {
			failed := do()
			took := time.Since(began) - due
			lock.Lock()
			defer lock.Unlock()
			times, err = append(times, took), errors.Join(err, failed)
		})
	}
	all.Wait()
	return times, err
}

// InARow begins so many requests a second on one connection, whether or not others are answered, and returns how long
// after its time each answer came.
func InARow(c net.Conn, perSecond int, duration time.Duration) (times []time.Duration, err error) {
	_ = c.SetDeadline(time.Now().Add(2 * duration))
	began, each := time.Now(), time.Second/time.Duration(perSecond)
	sent := make(chan error, 1)
	go func() {
		var err error
		for due := time.Duration(0); due < duration && err == nil; due += each {
			time.Sleep(time.Until(began.Add(due)))
			_, err = c.Write(make([]byte, 64))
		}
		sent <- err
	}()
	for due := time.Duration(0); due < duration; due += each {
		if _, err := io.ReadFull(c, make([]byte, 64)); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began)-due)
	}
	return times, <-sent
}
