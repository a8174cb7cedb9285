// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/host"
	"purerdma/test/microvm/wire"
)

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// useTerminal makes the program run on a terminal in the guest. If rdmavm itself runs on a
// terminal, that is put in raw mode when the program starts, so that keys reach the guest's
// terminal. The returned function restores it.
func useTerminal(o *host.Options) (restore func()) {
	o.TTY, o.Rows, o.Cols = true, 25, 80
	fd := int(os.Stdin.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	o.Rows, o.Cols = windowSize(fd)
	var once sync.Once
	raw := false
	o.Started = func(conn *wire.Conn) {
		once.Do(func() {
			raw = true
			makeRaw(fd, *old)
			resized := make(chan os.Signal, 1)
			signal.Notify(resized, syscall.SIGWINCH)
			go func() {
				for range resized {
					rows, cols := windowSize(fd)
					b := binary.BigEndian.AppendUint16(nil, rows)
					conn.Send(wire.Winsize, binary.BigEndian.AppendUint16(b, cols))
				}
			}()
		})
	}
	return func() {
		if raw {
			unix.IoctlSetTermios(fd, unix.TCSETS, old)
		}
	}
}

// makeRaw passes every key on unchanged, including signals and line ends.
func makeRaw(fd int, t unix.Termios) {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	unix.IoctlSetTermios(fd, unix.TCSETS, &t)
}

func windowSize(fd int) (rows, cols uint16) {
	if ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && ws.Row > 0 {
		return ws.Row, ws.Col
	}
	return 25, 80
}
