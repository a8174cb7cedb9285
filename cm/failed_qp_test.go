// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/inflight"
	"purerdma/test/connectx/inprocess"
	"purerdma/test/connectx/prm"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestDoneOfAFailedQP checks that an event of the device that reports a failed QP ends an idle connection at once,
// without a keepalive.
func TestDoneOfAFailedQP(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, devices *inprocess.Kernel, client, server *cm.Conn){
		"by the device": func(t *testing.T, devices *inprocess.Kernel, client, server *cm.Conn) {
			devices.Device(client.Device().Name()).FailQP(client.QP().Num(), prm.EventWQCatas)
		},
		"by a WRITE of the peer": func(t *testing.T, devices *inprocess.Kernel, client, server *cm.Conn) {
			buf, err := server.Alloc(64, verbs.LocalWrite)
			if err != nil {
				t.Fatalf("Alloc: %v", err)
			}
			err = server.Write(within(t, 10*time.Second), buf.SGE(), verbs.RemoteMemory{RKey: 77, Length: 64})
			if failed, ok := errors.AsType[*verbs.WCError](err); !ok || failed.Status != verbs.WCRemAccessErr {
				t.Errorf("Write to memory without a right = %v, want %v", err, verbs.WCRemAccessErr)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			devices := inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1")
			k := cmtest.New(devices)
			ln := listenOn(t, cm.ListenConfig{Host: k.Host(), KeepAlive: -1}, "10.0.0.1:7")
			client, server := dialed(t, ln, &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0"), KeepAlive: -1})
			fail(t, devices, client, server)
			select {
			case <-client.Done():
			case <-time.After(10 * time.Second):
				t.Fatalf("Done of a QP in the state %v is open", client.QP().State())
			}
			if failed, ok := errors.AsType[*verbs.WCError](client.Err()); !ok || failed.Status != verbs.WCWRFlushErr || failed.QPNum != client.QP().Num() {
				t.Errorf("Err() = %v, want the flush of QP %#x", client.Err(), client.QP().Num())
			}
			if broken, ok := errors.AsType[*cm.BrokenError](client.Err()); !ok || broken.Op != "" {
				t.Errorf("Err() = %v, want a *BrokenError without an operation", client.Err())
			}
		})
	}
}

// TestFailureOfADetachedOperation checks that a receive which was flushed names the failed request of a detached
// operation, for which no goroutine waits. That is also so if the peer disconnects before the completion is polled.
func TestFailureOfADetachedOperation(t *testing.T) {
	for name, machine := range map[string]func() uverbs.Kernel{
		"rxe":  func() uverbs.Kernel { return uverbstest.New("rxe0", "rxe1") },
		"siw":  func() uverbs.Kernel { return uverbstest.NewSIW("siw0", "siw1") },
		"mlx5": func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1") },
	} {
		for _, disconnects := range []bool{false, true} {
			if disconnects && name == "siw" {
				continue // a query does not show that its QP has failed
			}
			t.Run(fmt.Sprintf("%s, disconnects %v", name, disconnects), func(t *testing.T) {
				k := cmtest.New(machine())
				ln := listenOn(t, cm.ListenConfig{Host: k.Host(), KeepAlive: -1}, "10.0.0.1:7")
				client, server := dialed(t, ln, &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0"), KeepAlive: -1})
				buf, err := client.Alloc(64, verbs.LocalWrite)
				if err != nil {
					t.Fatalf("Alloc: %v", err)
				}
				if err := client.PostRecv(1, buf.Slice(32, 32)); err != nil {
					t.Fatalf("PostRecv: %v", err)
				}
				op, err := client.StartWrite(within(t, 10*time.Second), buf.Slice(0, 32), verbs.RemoteMemory{RKey: 77, Length: 32}, nil)
				if err != nil {
					t.Fatalf("StartWrite: %v", err)
				}
				op.Detach()
				if disconnects {
					for a, err := client.QP().Query(); a.State != verbs.QPErr; a, err = client.QP().Query() {
						if err != nil {
							t.Fatalf("Query: %v", err)
						}
					}
					server.Close()
					<-client.Done()
				}
				_, err = client.WaitRecv(within(t, 10*time.Second))
				if failed, ok := errors.AsType[*verbs.WCError](err); !ok || failed.Status != verbs.WCRemAccessErr {
					t.Errorf("WaitRecv() = %v, want %v", err, verbs.WCRemAccessErr)
				}
				if broken, ok := errors.AsType[*cm.BrokenError](client.Err()); !ok || broken.Op != "work request" {
					t.Errorf("Err() = %v, want a *BrokenError of a work request", client.Err())
				}
			})
		}
	}
}

// faultyMachines holds a constructor of a fake kernel with two devices for each driver that fails QPs. The
// constructor also returns a function that writes the completion of a missing request or receive.
var faultyMachines = map[string]func() (uverbs.Kernel, func(conn *cm.Conn, receive bool) bool){
	"mlx5": func() (uverbs.Kernel, func(conn *cm.Conn, receive bool) bool) {
		devices := inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1")
		return devices, func(conn *cm.Conn, receive bool) bool {
			return devices.Device(conn.Device().Name()).WrongCompletion(conn.QP().Num(), receive)
		}
	},
	"erdma": func() (uverbs.Kernel, func(conn *cm.Conn, receive bool) bool) {
		devices := uverbstest.NewERDMA("erdma_0", "erdma_1")
		return devices, func(conn *cm.Conn, receive bool) bool { return devices.WrongCompletion(conn.QP().Num(), receive) }
	},
}

// TestDoneOfAnInvalidCompletion has a device complete a request or receive that was not posted. A poll finds the
// completion. The connection ends at once and names the cause, also if it has no outstanding requests and
// receives of its own.
func TestDoneOfAnInvalidCompletion(t *testing.T) {
	for driver, machine := range faultyMachines {
		for name, options := range map[string]cm.Dialer{
			"no receives":     {},
			"receives":        {Receive: &inflight.ReceiveConfig{Size: 64}},
			"shared receives": {Shared: cm.NewShared(cm.SharedConfig{})},
		} {
			for _, receive := range []bool{false, true} {
				if receive && options.Shared != nil {
					continue // mlx5's model refuses it
				}
				t.Run(fmt.Sprintf("%s, %s, of a receive %v", driver, name, receive), func(t *testing.T) {
					devices, wrong := machine()
					doneOfAnInvalidCompletion(t, cmtest.New(devices), options, wrong, receive)
				})
			}
		}
	}
}

func doneOfAnInvalidCompletion(t *testing.T, k *cmtest.Kernel, d cm.Dialer, wrong func(*cm.Conn, bool) bool, receive bool) {
	ln := listenOn(t, cm.ListenConfig{Host: k.Host(), KeepAlive: -1}, "10.0.0.1:7")
	d.Host, d.LocalAddr, d.KeepAlive = k.Host(), mustParse("10.0.0.2:0"), -1
	conn, _ := dialed(t, ln, &d)
	if d.Shared != nil {
		t.Cleanup(func() { d.Shared.Close() })
	}
	if !wrong(conn, receive) {
		t.Fatal("no completion was written")
	}
	cq, reason := conn.QP().SendCQ(), "completion of a request that was not posted"
	if receive {
		cq, reason = conn.QP().RecvCQ(), "completion of a receive that was not posted"
	}
	if n, err := cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
		t.Errorf("Poll = %d, %v, want 0, nil", n, err)
	}
	wantInvalid(t, conn, reason)
	if err := conn.Send(within(t, 10*time.Second)); !errors.Is(err, errors.Unwrap(conn.Err())) {
		t.Errorf("Send() = %v, want the cause of %v", err, conn.Err())
	}
	wantHistory(t, "History()", conn.History(), [3]string{"break", "invalid completion", "state established"})
}

// wantInvalid waits for the end of a connection, and checks that the cause is an invalid completion.
func wantInvalid(t *testing.T, conn *cm.Conn, reason string) {
	t.Helper()
	select {
	case <-conn.Done():
	case <-time.After(10 * time.Second):
		t.Fatalf("Done of a QP in the state %v is open", conn.QP().State())
	}
	invalid, ok := errors.AsType[*verbs.InvalidCompletionError](conn.Err())
	if want := (verbs.InvalidCompletionError{QPNum: conn.QP().Num(), Reason: reason}); !ok || *invalid != want {
		t.Errorf("Err() = %v, want %v", conn.Err(), &want)
	}
	if broken, ok := errors.AsType[*cm.BrokenError](conn.Err()); !ok || broken.Op != "" || !strings.Contains(broken.Error(), reason) {
		t.Errorf("Err() = %v, want a *BrokenError without an operation", conn.Err())
	}
	if wc, ok := errors.AsType[*verbs.WCError](conn.Err()); !ok || wc.Status != verbs.WCFatalErr {
		t.Errorf("Err() = %v, want an error that wraps the status %v", conn.Err(), verbs.WCFatalErr)
	}
}

// TestCauseOfAnInvalidCompletion has goroutines wait for messages when an invalid completion comes. The cause of
// the end is the invalid completion, not the completion of one of the receives.
func TestCauseOfAnInvalidCompletion(t *testing.T) {
	for driver, machine := range faultyMachines {
		t.Run(driver, func(t *testing.T) {
			for range 20 {
				devices, wrong := machine()
				k := cmtest.New(devices)
				ln := listenOn(t, cm.ListenConfig{Host: k.Host(), KeepAlive: -1}, "10.0.0.1:7")
				d := cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0"), KeepAlive: -1, Receive: &inflight.ReceiveConfig{Size: 64}}
				conn, _ := dialed(t, ln, &d)
				received := make(chan error)
				for range 2 {
					go func() {
						_, err := conn.Receive(within(t, 10*time.Second))
						received <- err
					}()
				}
				wrong(conn, true)
				for range 2 {
					err := <-received
					if wc, ok := errors.AsType[*verbs.WCError](err); !ok || wc.Status != verbs.WCFatalErr {
						t.Errorf("Receive() = %v, want an error that wraps the status %v", err, verbs.WCFatalErr)
					}
				}
				wantInvalid(t, conn, "completion of a receive that was not posted")
				conn.Close()
				ln.Close()
			}
		})
	}
}
