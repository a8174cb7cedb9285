// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"io"
	"sync"
)

// prefix marks every line of this VM's output, to distinguish two VMs.
func (v *vm) prefix(p string) {
	v.stdout = &prefixWriter{w: v.stdout, prefix: []byte(p), mu: &outputLock}
	v.stderr = &prefixWriter{w: v.stderr, prefix: []byte(p), mu: &outputLock}
}

// outputLock separates the lines of two VMs.
var outputLock sync.Mutex

// A prefixWriter writes whole lines with a prefix. It holds back an unfinished line until the
// rest arrives.
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

// flush writes an unfinished line.
func (w *prefixWriter) flush() {
	if len(w.part) > 0 {
		w.Write([]byte("\n"))
	}
}
