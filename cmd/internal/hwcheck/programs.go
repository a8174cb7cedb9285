// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ours returns the path of a program of this project.
func (t *Target) ours(name string) (string, error) {
	if t.Programs == "" {
		return "", fmt.Errorf("the directory of this project's programs, such as %s, is not known", name)
	}
	return exec.LookPath(filepath.Join(t.Programs, name))
}

// installed returns the path of a program of others in PATH.
func (t *Target) installed(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	if own, err := t.ours(name); err == nil && sameFile(own, path) {
		return "", errors.New(name + " in PATH is a program of this project")
	}
	return path, nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// runPair runs a server, and after a pause a client until it succeeds or ctx ends, because servers do not show when they are ready.
// It returns the output of the client.
func runPair(ctx context.Context, pause time.Duration, server, client []string) ([]byte, error) {
	return runPairOf(ctx, pause, server, func() *exec.Cmd { return exec.CommandContext(ctx, client[0], client[1:]...) })
}

// runPairOf is runPair with a function that makes the process of each attempt of the client.
func runPairOf(ctx context.Context, pause time.Duration, server []string, client func() *exec.Cmd) ([]byte, error) {
	serving := exec.CommandContext(ctx, server[0], server[1:]...)
	var said bytes.Buffer
	serving.Stdout, serving.Stderr = &said, &said
	if err := serving.Start(); err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	go func() {
		serving.Wait()
		close(gone)
	}()
	end := func() {
		serving.Process.Kill()
		<-gone
	}
	defer end()
	for {
		select {
		case <-time.After(pause):
		case <-gone:
			return nil, fmt.Errorf("the server %s has ended: %s", filepath.Base(server[0]), last(said.Bytes()))
		}
		out, err := client().CombinedOutput()
		if err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			end()
			return nil, fmt.Errorf("%s: %w: %s; server: %s", filepath.Base(server[0]), err, last(out), last(said.Bytes()))
		}
	}
}

// last returns the end of an output.
func last(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[max(0, len(out)-200):]
}
