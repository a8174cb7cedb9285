// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"io"
	"sync"
)

// prefix marks every line of this VM's output, so that two can be told
// apart.
func (v *vm) prefix(p string) {
	v.stdout = &prefixWriter{w: v.stdout, prefix: []byte(p), mu: &outputLock}
	v.stderr = &prefixWriter{w: v.stderr, prefix: []byte(p), mu: &outputLock}
}

// outputLock keeps the lines of two VMs apart.
var outputLock sync.Mutex

// A prefixWriter writes whole lines with something in front of each. It
// holds back an unfinished line until the rest comes.
type prefixWriter struct {
	w      io.Writer
	prefix []byte
	mu     *sync.Mutex
	part   []byte
}

func (w *prefixWriter) Write(b []byte) (int, error) {
	w.part = append(w.part, b...)
	var out []byte
	for {
		i := bytes.IndexByte(w.part, '\n')
		if i < 0 {
			break
		}
		out = append(append(out, w.prefix...), w.part[:i+1]...)
		w.part = w.part[i+1:]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(out)
	return len(b), err
}

// flush writes what is left without a newline.
func (w *prefixWriter) flush() {
	if len(w.part) > 0 {
		w.Write([]byte("\n"))
	}
}
