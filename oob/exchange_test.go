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

// addresses returns n different addresses.
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
					return errors.New("connect of the passive side got wrong addresses")
				}
				return nil
			})
			if err == nil && !slices.Equal(got, own) {
				err = errors.New("Passive returned wrong addresses")
			}
			done <- err
		}()
		got, err := Active(t.Context(), l, own, func(remote []Address) error {
			order = append(order, "active")
			return nil
		})
		if err != nil || !slices.Equal(got, others) {
			t.Errorf("Active = %v, %v, want %v", got, err, others)
		}
		if err := <-done; err != nil {
			t.Errorf("Passive: %v", err)
		}
		if strings.Join(order, " ") != "passive active" {
			t.Errorf("connect calls in the order %v, want passive before active", order)
		}
	}
}

func TestExchangeSize(t *testing.T) {
	for _, n := range []int{0, maxAddresses + 1} {
		if _, err := Active(t.Context(), nil, addresses(n), nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Active with %d addresses = %v, want EINVAL", n, err)
		}
	}
}

// TestHostilePeer checks that an exchange fails with its step if the peer sends other data,
// less data, or leaves.
func TestHostilePeer(t *testing.T) {
	refused := errors.New("refused")
	refuse := func([]Address) error { return refused }
	for _, tc := range []struct {
		name    string
		run     func(context.Context, net.Conn, []Address, func([]Address) error) ([]Address, error)
		connect func([]Address) error
		says    string // sent by the peer after it has read that many bytes
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
				t.Fatalf("exchange = %v, %v, want %v", got, err, tc.want)
			}
			x, ok := errors.AsType[*ExchangeError](err)
			if ok != (tc.stage != 0) || ok && (x.Stage != tc.stage || x.Index != tc.index || x.Bytes != tc.bytes) {
				t.Errorf("exchange failed with %+v, want stage %v, index %d, bytes %d", x, tc.stage, tc.index, tc.bytes)
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
			t.Errorf("Passive error = %v, want EBADMSG and the confirmation", err)
		}
	})
}

// TestExchangeContext checks that the end of a context ends an exchange and leaves no deadline
// on the connection.
func TestExchangeContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := net.Pipe()
		defer l.Close()
		defer r.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Passive(ctx, l, addresses(1), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Passive error = %v, want %v", err, context.DeadlineExceeded)
		}
		go func() {
			time.Sleep(time.Second)
			r.Write([]byte("x"))
		}()
		var b [1]byte
		if _, err := l.Read(b[:]); err != nil {
			t.Errorf("Read after the exchange = %v, want data", err)
		}
		// A deadline of the caller is not an error of the context.
		l.SetDeadline(time.Now().Add(time.Second))
		if _, err := Passive(t.Context(), l, addresses(1), nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Passive error = %v, want %v", err, os.ErrDeadlineExceeded)
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
			if len(says) > 0 { // an empty write to a pipe also blocks until it is read
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
			t.Errorf("exchange after %q = %v, %v, want success %t", says, got, err, well)
		}
	})
}

// TestNilContext checks the panic message for a nil context.
func TestNilContext(t *testing.T) {
	defer func() {
		if r := recover(); r != "nil context" {
			t.Errorf("panic = %v, want \"nil context\"", r)
		}
	}()
	a, _ := net.Pipe()
	defer a.Close()
	var none context.Context
	Active(none, a, make([]Address, 1), nil)
}
