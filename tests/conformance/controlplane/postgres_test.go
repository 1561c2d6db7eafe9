package controlplane

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/tests/postgres"
	"switchyard.dev/tests/runners"
)

// server is the PostgreSQL of TestOnPostgreSQL, which starts with the first world in it. Its worlds are one after the
// other, in one database.
var server *postgres.Server

// succeeded are the operations that have answered with success.
var succeeded sync.Map

func TestMain(m *testing.M) {
	code := m.Run()
	runners.Clean()
	whole := code == 0 && flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String()+flag.Lookup("test.list").Value.String() == ""
	for name := range answers {
		if _, has := succeeded.Load(name); whole && !has {
			fmt.Fprintf(os.Stderr, "no test calls %s with success\n", name)
			code = 1
		}
	}
	if server != nil {
		if err := server.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// newDatabase returns the URL of a database without rows.
func newDatabase(t *testing.T) string {
	t.Helper()
	const name, clear = "world", `DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT LIKE 'goose%' LOOP EXECUTE 'DELETE FROM ' || t; END LOOP; END $$`
	var err error
	if server != nil {
		err = server.Execute(t.Context(), name, clear)
	} else if server, err = postgres.Temporary(context.Background(), "fsync=off", "full_page_writes=off"); err == nil {
		_, err = server.Create(t.Context(), name, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

// TestOnPostgreSQL runs those tests again that depend on the store.
func TestOnPostgreSQL(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"TheRecordedSession": TestTheRecordedSession, "BadInput": TestBadInput, "WhatWasReadCanBeWritten": TestAnswersAreValidRequests,
		"AResourceKeepsTheVersionOfItsPlugin": TestAResourceKeepsTheVersionOfItsPlugin, "AnUpdateKeepsOtherFields": TestAnUpdateKeepsOtherFields,
		"ASandboxThatIsBeingDeleted": TestASandboxThatIsBeingDeleted, "ARouteGroupNamesTheSandboxesThatExist": TestARouteGroupNamesTheSandboxesThatExist,
		"ACredentialIsShownOnce": TestACredentialIsShownOnce, "AnswersThatCrashAClient": TestAnswersThatCrashAClient, "ALogin": TestALogin, "LoginsThatEnd": TestLoginsThatEnd,
		"Rights": TestRights, "WritesAreAudited": TestWritesAreAudited, "AnotherOrganisation": TestAnotherOrganisation, "DevboxesOfOthers": TestDevboxesOfOthers, "AMemberHasItsOwnKeys": TestAMemberHasItsOwnKeys,
		"Downloads": TestDownloads, "AnswersOfJobs": TestAnswersOfJobs, "AttachedJobs": TestAttachedJobs, "NoSecretLeaves": TestNoSecretLeaves, "TransactionsOfARequest": TestTransactionsOfARequest, "ASandboxEnds": TestASandboxEnds,
	} {
		t.Run(name, test)
	}
}

// lines is a log.
type lines struct {
	sync.Mutex
	bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(text)
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return strings.Clone(l.Buffer.String())
}
