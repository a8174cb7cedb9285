// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// addresses returns n different ones.
func addresses(n int) []Address {
	as := make([]Address, n)
	for i := range as {
		as[i] = sample
		as[i].QPN += uint32(i)
		as[i].PSN -= uint32(i)
	}
	return as
}

func TestExchange(t *testing.T) {
	for _, n := range []int{1, 256} {
		l, r := net.Pipe()
		defer l.Close()
		defer r.Close()
		own, others := addresses(n), addresses(2 * n)[n:]
		var order []string
		done := make(chan error)
		go func() {
			got, err := Passive(t.Context(), r, others, func(remote []Address) error {
				order = append(order, "passive")
				if !slices.Equal(remote, own) {
					return errors.New("the passive side has other addresses")
				}
				return nil
			})
			if err == nil && !slices.Equal(got, own) {
				err = errors.New("the passive side returned other addresses")
			}
			done <- err
		}()
		got, err := Active(t.Context(), l, own, func(remote []Address) error {
			order = append(order, "active")
			return nil
		})
		if err != nil || !slices.Equal(got, others) {
			t.Error(err, got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if strings.Join(order, " ") != "passive active" {
			t.Errorf("connected in the order %v", order)
		}
	}
}

func TestExchangeSize(t *testing.T) {
	for _, n := range []int{0, maxAddresses + 1} {
		if _, err := Active(t.Context(), nil, addresses(n), nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%d addresses: %v", n, err)
		}
	}
}

// A peer that sends something else, or less, or leaves, ends the exchange with an
// error that says where.
func TestHostilePeer(t *testing.T) {
	refused := errors.New("refused")
	refuse := func([]Address) error { return refused }
	for _, tc := range []struct {
		name    string
		run     func(context.Context, net.Conn, []Address, func([]Address) error) ([]Address, error)
		connect func([]Address) error
		says    string // what the peer sends when it has read reads bytes
		reads   int
		want    error
		stage   Stage
		index   int
		bytes   int
	}{
		{"active, leaves at once", Active, nil, "", 0, io.ErrClosedPipe, StageSend, 0, 0},
		{"active, leaves in between", Active, nil, "", AddressLen + 10, io.ErrClosedPipe, StageSend, 1, 10},
		{"active, says nothing", Active, nil, "", 2 * AddressLen, io.ErrUnexpectedEOF, StageReceive, 0, 0},
		{"active, says a part", Active, nil, sampleWire + sampleWire[:20], 2 * AddressLen, io.ErrUnexpectedEOF, StageReceive, 1, 20},
		{"active, says something else", Active, nil, sampleWire + strings.Repeat("x", AddressLen), 2 * AddressLen, syscall.EBADMSG, StageReceive, 1, AddressLen},
		{"active, leaves before it is confirmed", Active, nil, sampleWire + sampleWire, 2 * AddressLen, io.ErrClosedPipe, StageConfirm, 0, 0},
		{"active, cannot connect", Active, refuse, sampleWire + sampleWire, 2 * AddressLen, refused, 0, 0, 0},
		{"passive, leaves at once", Passive, nil, "", 0, io.ErrUnexpectedEOF, StageReceive, 0, 0},
		{"passive, says something else", Passive, nil, strings.Repeat("\x00", AddressLen), 0, syscall.EBADMSG, StageReceive, 0, AddressLen},
		{"passive, cannot connect", Passive, refuse, sampleWire + sampleWire, 0, refused, 0, 0, 0},
		{"passive, leaves before it has all", Passive, nil, sampleWire + sampleWire, AddressLen, io.ErrClosedPipe, StageSend, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, r := net.Pipe()
			defer l.Close()
			go func() {
				defer r.Close()
				passive := strings.HasPrefix(tc.name, "passive")
				if passive {
					io.WriteString(r, tc.says)
				}
				io.CopyN(io.Discard, r, int64(tc.reads))
				if !passive && tc.says != "" {
					io.WriteString(r, tc.says)
				}
			}()
			got, err := tc.run(t.Context(), l, addresses(2), tc.connect)
			if got != nil || !errors.Is(err, tc.want) {
				t.Fatalf("%v, %v; want %v", got, err, tc.want)
			}
			x, ok := errors.AsType[*ExchangeError](err)
			if ok != (tc.stage != 0) || ok && (x.Stage != tc.stage || x.Index != tc.index || x.Bytes != tc.bytes) {
				t.Errorf("%+v", x)
			}
		})
	}
	t.Run("wrong confirmation", func(t *testing.T) {
		l, r := net.Pipe()
		defer l.Close()
		go func() {
			defer r.Close()
			io.WriteString(r, sampleWire)
			io.CopyN(io.Discard, r, int64(AddressLen))
			io.WriteString(r, "gone\x00")
		}()
		if _, err := Passive(t.Context(), l, addresses(1), nil); !errors.Is(err, syscall.EBADMSG) || !strings.Contains(err.Error(), `confirm [0]: "gone\x00"`) {
			t.Error(err)
		}
	})
}

// The end of a context ends an exchange, and leaves the connection without a
// deadline.
func TestExchangeContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := net.Pipe()
		defer l.Close()
		defer r.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Passive(ctx, l, addresses(1), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		go func() {
			time.Sleep(time.Second)
			r.Write([]byte("x"))
		}()
		var b [1]byte
		if _, err := l.Read(b[:]); err != nil {
			t.Errorf("the connection afterwards: %v", err)
		}
		// A deadline of the caller's own is not the context's.
		l.SetDeadline(time.Now().Add(time.Second))
		if _, err := Passive(t.Context(), l, addresses(1), nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

func FuzzPassive(f *testing.F) {
	f.Add([]byte(sampleWire + confirmation))
	f.Add([]byte(sampleWire + "d"))
	f.Fuzz(func(t *testing.T, says []byte) {
		l, r := net.Pipe()
		defer l.Close()
		go io.Copy(io.Discard, r)
		go func() {
			if len(says) > 0 { // a pipe carries nothing, too, and waits for who reads it
				r.Write(says)
			}
			r.Close()
		}()
		got, err := Passive(t.Context(), l, addresses(1), nil)
		well := len(says) >= AddressLen+len(confirmation) && string(says[AddressLen:AddressLen+len(confirmation)]) == confirmation
		if well {
			_, perr := ParseAddress(says[:AddressLen])
			well = perr == nil
		}
		if (err == nil) != well || (got != nil) != well {
			t.Errorf("%q: %v, %v", says, got, err)
		}
	})
}

// TestNilContext: the panic says what is wrong.
func TestNilContext(t *testing.T) {
	defer func() {
		if r := recover(); r != "nil context" {
			t.Error(r)
		}
	}()
	a, _ := net.Pipe()
	defer a.Close()
	var none context.Context
	Active(none, a, make([]Address, 1), nil)
}
