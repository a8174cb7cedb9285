// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
	"purerdma/verbs"
)

// TestEndedContexts checks that calls whose context has ended send nothing, although there are credits and
// memory.
func TestEndedContexts(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("cause of the test"))
	late, cancelLate := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), errors.New("cause of the test"))
	defer cancelLate()
	for name, ctx := range map[string]context.Context{"cancelled": cancelled, "late": late} {
		t.Run(name, func(t *testing.T) {
			streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) { endedContext(t, k, ctx) })
		})
	}
}

// endedContext makes all calls with a context that has ended, and checks that they fail with its error.
func endedContext(t *testing.T, k *cmtest.Kernel, ended context.Context) {
	ln := listen(t, k, msg.Options{})
	c, s := dial(t, k, msg.Options{}, ln), accept(t, ln)
	live := streamconntest.Deadline(t)
	mr := windowMR(t, c, 64)
	mem := msg.Memory{Bytes: mr.Bytes(), MR: mr}
	replies, err := c.Stream(live, &msg.Request{Parts: 2, Read: mem, Write: msg.Memory{Bytes: make([]byte, 64)}})
	if err != nil {
		t.Fatalf("Stream() = %v", err)
	}
	request, err := s.Receive(live)
	if err != nil {
		t.Fatalf("Receive() = %v", err)
	}
	defer request.Free()
	read, write := request.Lent()
	buf, err := s.Pool().Get(live, 64)
	if err != nil {
		t.Fatalf("Get() = %v", err)
	}
	defer buf.Free()

	calls := map[string]func(ctx context.Context) error{
		"Dialer.Dial": func(ctx context.Context) error {
			_, err := (&msg.Dialer{CM: cm.Dialer{Host: k.Host()}}).Dial(ctx, "tcp", ln.Addr().String())
			return err
		},
		"ListenConfig.Listen": func(ctx context.Context) error {
			_, err := (&msg.ListenConfig{CM: cm.ListenConfig{Host: k.Host()}}).Listen(ctx, "tcp", "name.invalid:1")
			return err
		},
		"Listener.Accept": func(ctx context.Context) error { _, err := ln.Accept(ctx); return err },
		"Conn.Send":       func(ctx context.Context) error { return c.Send(ctx, 1, nil) },
		"Conn.Call":       func(ctx context.Context) error { _, err := c.Call(ctx, 1, nil); return err },
		"Conn.Do":         func(ctx context.Context) error { _, err := c.Do(ctx, &msg.Request{Read: mem}); return err },
		"Conn.Stream": func(ctx context.Context) error {
			_, err := c.Stream(ctx, &msg.Request{Parts: 1, Read: mem})
			return err
		},
		"Conn.Receive":      func(ctx context.Context) error { _, err := s.Receive(ctx); return err },
		"Conn.Lend":         func(ctx context.Context) error { _, err := c.Lend(ctx, mem, verbs.RemoteRead); return err },
		"Conn.Read":         func(ctx context.Context) error { return s.Read(ctx, buf.SGE(), read) },
		"Conn.Write":        func(ctx context.Context) error { return s.Write(ctx, buf.SGE(), write) },
		"Replies.Next":      func(ctx context.Context) error { _, err := replies.Next(ctx); return err },
		"Message.ReplyPart": func(ctx context.Context) error { return request.ReplyPart(ctx, 1, nil) },
		"Message.ReadLent":  func(ctx context.Context) error { return request.ReadLent(ctx, buf.SGE(), 0) },
		"Message.WriteLent": func(ctx context.Context) error { return request.WriteLent(ctx, buf.SGE(), 0) },
		"Message.Reply":     func(ctx context.Context) error { return request.Reply(ctx, 1, nil) },
		"Message.Fail":      func(ctx context.Context) error { return request.Fail(ctx, "no") },
	}
	for _, name := range callsWithContext() {
		if calls[name] == nil {
			t.Errorf("%s takes a context and is not tested", name)
		}
	}
	posted := func() [2]uint64 {
		return [2]uint64{c.Stats().Conn.Operations.Started, s.Stats().Conn.Operations.Started}
	}
	k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) {
		t.Errorf("a call with an ended context has sent the connection manager's message %v", m.Type)
		return cmtest.Arrives, 0
	})
	before := posted()
	for name, call := range calls {
		err := call(ended)
		if _, ok := errors.AsType[*cm.OpError](err); !ok || !errors.Is(err, ended.Err()) {
			t.Errorf("%s with an ended context = %v, want a *cm.OpError with %v", name, err, ended.Err())
		} else if text := err.Error(); name != "ListenConfig.Listen" && !strings.HasSuffix(text, "cause of the test") {
			t.Errorf("%s with an ended context = %q, want the cause of the context", name, text)
		}
		if got := posted(); got != before {
			t.Errorf("%s with an ended context: posted operations = %d, want %d", name, got, before)
			before = got
		}
	}
	k.OnMessage(nil)

	// The peer gets nothing of them, and the connection and the request go on.
	if err := c.Send(live, 7, nil); err != nil {
		t.Errorf("Send() = %v", err)
	}
	if m, err := s.Receive(live); err != nil || m.Tag() != 7 {
		t.Errorf("Receive() = %v, %v, want the message with tag 7", m, err)
	} else {
		m.Free()
	}
	if err := request.Reply(live, 8, nil); err != nil {
		t.Errorf("Reply() = %v", err)
	}
	if m, err := replies.Next(live); err != nil || m.Tag() != 8 {
		t.Errorf("Next() = %v, %v, want the reply with tag 8", m, err)
	} else {
		m.Free()
	}
}

// callsWithContext returns the exported methods that take a context.
func callsWithContext() (names []string) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[*msg.Conn](), reflect.TypeFor[*msg.Message](), reflect.TypeFor[*msg.Replies](),
		reflect.TypeFor[*msg.Loan](), reflect.TypeFor[*msg.Listener](), reflect.TypeFor[*msg.Dialer](), reflect.TypeFor[*msg.ListenConfig](),
	} {
		for m := range typ.Methods() {
			if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() {
				names = append(names, typ.Elem().Name()+"."+m.Name)
			}
		}
	}
	return names
}
