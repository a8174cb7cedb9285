// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// The same numbers for both sides.
const (
	streamSize    = 64 << 10
	streamDepth   = 128
	streamSignal  = 100 // every so many writes one completes, ib_write_bw's default
	streamCount   = 3000
	streamTimeout = 2 * time.Minute
)

// benchStream compares the time that a 64 KiB RDMA WRITE takes when the sender
// keeps its queue full and polls.
func benchStream(ctx context.Context, e *env) error {
	var p pairs
	for range e.runs {
		c, err := writeBW(ctx, e)
		if err != nil {
			return err
		}
		goes, err := ourStream(ctx, e)
		if err != nil {
			return err
		}
		p.add(c, goes)
	}
	p.print("us/write")
	return nil
}

// writeBW runs ib_write_bw of perftest and returns microseconds per write.
func writeBW(ctx context.Context, e *env) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	args := []string{"-R", "-s", strconv.Itoa(streamSize), "-n", strconv.Itoa(streamCount), "-t", strconv.Itoa(streamDepth), "-Q", strconv.Itoa(streamSignal)}
	server := exec.CommandContext(ctx, "ib_write_bw", append([]string{"-d", e.hosts[0].Device}, args...)...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	time.Sleep(time.Second)
	out, err := exec.CommandContext(ctx, "ib_write_bw", append(append([]string{"-d", e.hosts[1].Device}, args...), e.hosts[0].IPv4.String())...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("ib_write_bw: %w: %s", err, out)
	}
	return parseWriteBW(string(out))
}

// parseWriteBW finds the row of the result: size, count, peak and average in
// units of 2^20 bytes a second.
func parseWriteBW(out string) (float64, error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != strconv.Itoa(streamSize) {
			continue
		}
		average, err := strconv.ParseFloat(f[3], 64)
		if err != nil || average <= 0 {
			return 0, fmt.Errorf("ib_write_bw's row %q", line)
		}
		return streamSize / (average * (1 << 20)) * 1e6, nil
	}
	return 0, fmt.Errorf("ib_write_bw printed no result: %s", out)
}

// ourStream does the same with this stack, in two processes of this program.
func ourStream(ctx context.Context, e *env) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	server := exec.CommandContext(ctx, e.self, "-stream", "server", netip.AddrPortFrom(e.hosts[0].IPv4, 0).String())
	out, err := server.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the server: %w", err)
	}
	res, err := exec.CommandContext(ctx, e.self, "-stream", "client", strings.TrimSpace(addr), netip.AddrPortFrom(e.hosts[1].IPv4, 0).String()).Output()
	if err != nil {
		var ee *exec.ExitError
		if errors.As(err, &ee) {
			err = fmt.Errorf("%w: %s", err, ee.Stderr)
		}
		return 0, fmt.Errorf("the client: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(res)), 64)
}

func streamEnd(ctx context.Context, role string, args []string) error {
	if role == "server" {
		return streamServer(ctx, args[0])
	}
	return streamClient(ctx, args[0], args[1])
}

// streamServer registers a buffer, tells the client where it is, and waits.
func streamServer(ctx context.Context, addr string) error {
	ln, err := cm.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	fmt.Println(ln.Addr())
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	pd, err := req.PD()
	if err != nil {
		return err
	}
	mr, err := pd.Alloc(streamSize, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	where := binary.BigEndian.AppendUint64(nil, mr.Addr())
	where = binary.BigEndian.AppendUint32(where, mr.RKey())
	conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: where})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Wait(ctx)
	return err
}

// streamClient keeps the send queue full and prints microseconds per write.
func streamClient(ctx context.Context, addr, from string) error {
	src, err := cm.ParseAddr(from)
	if err != nil {
		return err
	}
	d := cm.Dialer{LocalAddr: src, QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: streamDepth}}}
	conn, err := d.Dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	where := conn.PrivateData()
	remote, rkey := binary.BigEndian.Uint64(where), binary.BigEndian.Uint32(where[8:])
	mr, err := conn.PD().Alloc(streamSize, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()

	sg := []verbs.SGE{mr.SGE()}
	wr := [1]verbs.SendWR{}
	wcs := make([]verbs.WC, 16)
	cq := conn.QP().SendCQ()
	start := time.Now()
	posted, completed := 0, 0
	for completed < streamCount {
		for posted < streamCount && posted-completed < streamDepth {
			wr[0] = verbs.SendWR{Opcode: verbs.OpWrite, SGList: sg, RemoteAddr: remote, RKey: rkey}
			posted++
			if posted%streamSignal == 0 || posted == streamCount {
				wr[0].Flags, wr[0].ID = verbs.SendSignaled, uint64(posted)
			}
			if _, err := conn.QP().PostSend(wr[:]); err != nil {
				return err
			}
		}
		n, err := cq.Poll(wcs)
		if err != nil {
			return err
		}
		for _, wc := range wcs[:n] {
			if err := wc.Err(); err != nil {
				return conn.Explain(err)
			}
			completed = int(wc.ID)
		}
	}
	fmt.Println(float64(time.Since(start).Nanoseconds()) / 1e3 / streamCount)
	return nil
}
