// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"errors"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/verbs"
)

// reads connects two hosts with param, and reads once from the server's memory.
func reads(ctx context.Context, k *cmtest.Kernel, param *cm.ConnParam) (string, error) {
	ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	served := make(chan error, 1)
	offer := make(chan *verbs.MR, 1)
	over := make(chan struct{})
	go func() {
		served <- func() error {
			defer close(offer)
			req, err := ln.Accept(ctx)
			if err != nil {
				return err
			}
			defer req.Close()
			pd, err := req.PD()
			if err != nil {
				return err
			}
			mr, err := pd.Alloc(4096, verbs.LocalWrite|verbs.RemoteRead)
			if err != nil {
				return err
			}
			defer closeFully(mr)
			copy(mr.Bytes(), "read me")
			conn, err := req.Accept(ctx, nil, nil)
			if err != nil {
				return err
			}
			defer closeFully(conn)
			offer <- mr
			<-over
			return nil
		}()
	}()
	text, err := func() (string, error) {
		defer close(over)
		d := cm.Dialer{Host: k.Host(), Param: param}
		conn, err := d.Dial(ctx, "tcp", "10.0.0.1:7471")
		if err != nil {
			return "", err
		}
		defer closeFully(conn)
		buf, err := conn.PD().Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite) // iWARP needs both
		if err != nil {
			return "", err
		}
		defer closeFully(buf)
		theirs := <-offer
		if theirs == nil {
			return "", errors.New("server: Accept failed")
		}
		err = conn.Read(ctx, buf.Slice(0, 7), theirs.Remote())
		return string(buf.Bytes()[:7]), err
	}()
	return text, errors.Join(err, <-served)
}

// TestReadWithPrivateDataAlone reads over a connection whose parameters hold only private
// data. The depths are the defaults.
func TestReadWithPrivateDataAlone(t *testing.T) {
	onMachines(t, drivers, func(t *testing.T, k *cmtest.Kernel) {
		got, err := reads(deadline(t), k, &cm.ConnParam{PrivateData: []byte("hello")})
		if want := "read me"; got != want || err != nil {
			t.Errorf("Read() = %q, %v, want %q", got, err, want)
		}
	})
}

// TestReadWithDepthNone reads over a connection whose InitiatorDepth is None.
func TestReadWithDepthNone(t *testing.T) {
	onMachines(t, drivers, func(t *testing.T, k *cmtest.Kernel) {
		_, err := reads(deadline(t), k, &cm.ConnParam{InitiatorDepth: cm.None})
		if !errors.Is(err, verbs.ErrNoReads) {
			t.Errorf("Read() = %v, want %v", err, verbs.ErrNoReads)
		}
	})
}
