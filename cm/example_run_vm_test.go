// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
)

// examples holds the examples that a test can run, because they use the addresses of the VM.
var examples = map[string]func(){
	"Dial":                  ExampleDial,
	"Resolve":               ExampleResolve,
	"EventChannel":          ExampleEventChannel,
	"Listener_Accept":       ExampleListener_Accept,
	"ID_Listen":             ExampleID_Listen,
	"Conn_Read":             ExampleConn_Read,
	"Request_Accept_memory": ExampleRequest_Accept_memory,
	"Resolved_Lookup":       ExampleResolved_Lookup,
	"Request_Answer":        ExampleRequest_Answer,
	"ID_JoinMulticast":      ExampleID_JoinMulticast,
}

func exampleChild() int {
	examples[os.Getenv("CM_TEST_ARG")]()
	return 0
}

// example returns a command that runs an example in its own process, because a failed example
// ends its process.
func example(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(within(t, time.Minute), os.Args[0])
	cmd.Env = append(os.Environ(), "CM_TEST_CHILD=example", "CM_TEST_ARG="+name)
	return cmd
}

// says runs an example until it succeeds, because its server may not listen yet. It returns
// the example's output.
func says(t *testing.T, name string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		cmd := example(t, name)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err == nil {
			return string(out)
		}
		if time.Now().After(end) {
			t.Fatalf("example %s: %v: %s%s", name, err, out, stderr.String())
		}
	}
}

// TestExamples runs the examples against each other.
func TestExamples(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	if at(hosts[0].IPv4, 0) != "10.8.0.1:0" || at(hosts[1].IPv4, 0) != "10.8.1.2:0" {
		t.Fatalf("addresses of the hosts = %v, %v, want 10.8.0.1, 10.8.1.2", hosts[0].IPv4, hosts[1].IPv4)
	}
	vmtest.NoLeaks(t)
	for _, tc := range []struct{ server, client, says string }{
		{"Listener_Accept", "Dial", "hello\n"},
		{"Listener_Accept", "EventChannel", ""},
		{"ID_Listen", "Dial", "hello\n"},
		{"Request_Accept_memory", "Conn_Read", "read me\n"},
		{"Request_Answer", "Resolved_Lookup", ""},
	} {
		t.Run(tc.server+" and "+tc.client, func(t *testing.T) {
			server := example(t, tc.server)
			if err := server.Start(); err != nil {
				t.Fatalf("server.Start: %v", err)
			}
			defer func() { server.Process.Kill(); server.Wait() }()
			if got := says(t, tc.client); got != tc.says {
				t.Errorf("output of %s = %q, want %q", tc.client, got, tc.says)
			}
		})
	}
	t.Run("ID_JoinMulticast", func(t *testing.T) { says(t, "ID_JoinMulticast") })
	t.Run("Resolve", func(t *testing.T) {
		ln := listen(t, "10.8.0.1:7471")
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			req, err := ln.Accept(ctx)
			if err == nil {
				var conn *cm.Conn
				if conn, err = req.Accept(ctx, nil, &cm.ConnParam{PrivateData: []byte("welcome")}); err == nil {
					_, err = conn.Disconnect(ctx)
					conn.Close()
				}
			}
			if err != nil {
				t.Errorf("server of Resolve: %v", err)
			}
		}()
		want := fmt.Sprintf("the peer said %q\n%v <nil>\n", padded("welcome", 196), cm.End{Event: cm.EventDisconnected})
		if got := says(t, "Resolve"); !strings.HasPrefix(got, want) {
			t.Errorf("output of Resolve = %q, want the prefix %q", got, want)
		}
	})
}
