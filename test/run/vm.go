// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// modules lists the modules with which tests disturb the network.
const modules = "bonding,sch_netem"

// command is one entry of rdmavm's list.
type command struct {
	Dir  string   `json:"dir"`
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
}

// runVM boots the virtual machine and runs the row's programs there.
func (r *row) runVM(ctx context.Context, rep *report) error {
	list, err := r.writeList()
	if err != nil {
		return err
	}
	defer os.Remove(list)
	tests, left := 0, 0
	for _, p := range r.programs {
		tests, left = tests+p.tests, left+p.left
	}
	args := append([]string{"-hosts", "2", "-modules", modules}, strings.Fields(r.vmFlags)...)
	if r.packages != "" {
		args = append(args, "-packages", r.packages)
	}
	cmd := exec.CommandContext(ctx, r.rdmavm, append(args, "-list", list)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = r.environ()
	// A single pipe keeps the order of the output of programs and rdmavm.
	output, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = w, w
	rep.beginRow(len(r.programs), tests)
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	s := sections{row: r, report: rep}
	rerr := s.read(output)
	err = cmd.Wait()
	switch {
	case rerr != nil:
		return rerr
	case s.ended < len(r.programs):
		rep.fail(r.name, fmt.Sprintf("the virtual machine ended after %d of %d test programs: %v\n", s.ended, len(r.programs), err))
	case err != nil && rep.cur.failed == 0:
		rep.fail(r.name, fmt.Sprintf("%s: %v\n", r.rdmavm, err))
	case err == nil && rep.cur.passed+rep.cur.failed == 0:
		rep.fail(r.name, "no test ran\n")
	}
	note := ""
	if left > 0 {
		note = fmt.Sprintf("; %d known skips on %s (test/run/skips_table.go)", left, r.driver())
	}
	rep.endRow(note)
	return nil
}

// writeList writes the list of programs for rdmavm and returns its file name.
func (r *row) writeList() (string, error) {
	rping, err := filepath.Abs(r.rping)
	if err != nil {
		return "", err
	}
	dir, err := r.binDir()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "list-")
	if err != nil {
		return "", err
	}
	e := json.NewEncoder(f)
	for _, p := range r.programs {
		if err := e.Encode(command{Dir: p.dir, Args: p.args, Env: []string{"RPING=" + rping}}); err != nil {
			f.Close()
			return "", err
		}
	}
	return f.Name(), f.Close()
}

// Lines with which rdmavm announces the start and the end of a program.
var (
	sectionStart = regexp.MustCompile(`rdmavm: \[(\d+)/\d+\] [^:]*: `)
	sectionEnd   = regexp.MustCompile(`rdmavm: \[(\d+)/\d+\] (ok|exit status \d+), ([0-9.]+) s\n`)
)

// sections splits the output of a virtual machine into the programs' outputs.
type sections struct {
	row    *row
	report *report
	conv   *converter // converter of the running program
	ended  int
}

func (s *sections) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, rerr := in.ReadString('\n')
		if err := s.line(line); err != nil {
			return err
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			return rerr
		}
	}
	if s.conv == nil {
		return nil
	}
	return s.end(false, 0) // the machine ended before the program
}

func (s *sections) line(line string) error {
	if s.conv == nil {
		m := sectionStart.FindStringSubmatch(line)
		if m == nil {
			s.report.output(line)
			return nil
		}
		n, err := strconv.Atoi(m[1])
		if err != nil || n < 1 || n > len(s.row.programs) {
			return fmt.Errorf("rdmavm announces program %s of %d", m[1], len(s.row.programs))
		}
		s.conv, err = newConverter(s.row.programs[n-1].pkg, s.report)
		return err
	}
	m := sectionEnd.FindStringSubmatchIndex(line)
	if m == nil {
		return s.conv.write(line)
	}
	if err := s.conv.write(line[:m[0]]); err != nil {
		return err
	}
	elapsed, err := strconv.ParseFloat(line[m[6]:m[7]], 64)
	if err != nil {
		return err
	}
	s.ended++
	return s.end(line[m[4]:m[5]] == "ok", elapsed)
}

// end ends the section with the program's result.
func (s *sections) end(ok bool, elapsed float64) error {
	c := s.conv
	s.conv = nil
	if err := c.close(); err != nil {
		return err
	}
	e := event{Action: "pass", Package: c.pkg, Elapsed: elapsed}
	if !ok {
		e.Action = "fail"
	}
	s.report.event(e)
	return nil
}

// A converter converts the output of one test program into events, with test2json.
type converter struct {
	pkg  string
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan error
}

func newConverter(pkg string, rep *report) (*converter, error) {
	c := &converter{pkg: pkg, cmd: exec.Command("go", "tool", "test2json", "-p", pkg), done: make(chan error, 1)}
	// An interrupt from the terminal must not end it before the end of its input.
	ownGroup(c.cmd)
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	rep.event(event{Action: "start", Package: pkg})
	go func() {
		c.done <- decode(out, func(e event) {
			// The program's exit status is the package's result, because it also fails if
			// something is left open.
			if e.Test == "" && e.Action != "output" {
				return
			}
			rep.event(e)
		}, os.Stderr)
	}()
	return c, nil
}

func (c *converter) write(s string) error {
	_, err := io.WriteString(c.in, s)
	return err
}

// close waits until all of the output has been converted.
func (c *converter) close() error {
	c.in.Close()
	err := <-c.done
	if werr := c.cmd.Wait(); err == nil {
		err = werr
	}
	return err
}
