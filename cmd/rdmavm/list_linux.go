// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"purerdma/test/microvm/wire"
)

// readList reads commands, one JSON object after the other. A directory is relative to dir. The
// environment consists of rdmavm's own and the command's variables.
func readList(name, dir string) ([]wire.Command, error) {
	r := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("-list: %w", err)
		}
		defer f.Close()
		r = f
	}
	commands, err := parseList(r, dir, os.Environ())
	if err != nil {
		return nil, fmt.Errorf("-list %s: %w", name, err)
	}
	return commands, nil
}

func parseList(r io.Reader, dir string, env []string) ([]wire.Command, error) {
	var list []wire.Command
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	for {
		var c wire.Command
		err := d.Decode(&c)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("command %d: %w", len(list)+1, err)
		}
		if len(c.Args) == 0 {
			return nil, fmt.Errorf(`command %d: "args" names no program`, len(list)+1)
		}
		if !filepath.IsAbs(c.Dir) {
			c.Dir = filepath.Join(dir, c.Dir)
		}
		c.Env = append(env[:len(env):len(env)], c.Env...)
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("no commands in it")
	}
	return list, nil
}
