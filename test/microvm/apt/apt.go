// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package apt gets Debian packages with the machine's own apt and unpacks them into a
// directory. It does not install them and does not need root.
//
// It keeps its own apt state (lists, cache and an empty dpkg status) below one directory.
// Because of the empty status the dependencies of a package are complete, and are equal on
// every machine. With the machine's status they would only contain the missing packages.
package apt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"purerdma/test/microvm/arch"
)

// An Apt is a private apt state for one Debian release.
type Apt struct {
	dir      string   // directory of lists, cache and configuration
	options  []string // options of every command
	progress io.Writer
}

// From returns an Apt that prefers packages from a suite, such as "trixie-backports", whose
// packages apt does not use by default.
func (a *Apt) From(suite string) *Apt {
	b := *a
	b.options = append(b.options[:len(b.options):len(b.options)], "-o", "APT::Default-Release="+suite)
	return &b
}

// ErrNotDebian reports that the machine has no apt, or an apt without a Debian mirror.
var ErrNotDebian = errors.New("this is not a Debian machine")

// Open prepares the state for an architecture and a release in dir. release is a codename such as
// "bookworm". Its -updates, -security and, with backports, -backports suites are included. Open fetches the
// package lists if they are missing or refresh is set.
func Open(ctx context.Context, dir string, on *arch.Arch, release string, backports, refresh bool, progress io.Writer) (*Apt, error) {
	for _, p := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(p); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotDebian, err)
		}
	}
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--no-release-info",
		"--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(SIGNED_BY)", "Created-By: Packages").Output()
	if err != nil {
		return nil, fmt.Errorf("apt-get indextargets: %w", explain(err))
	}
	sources, err := sourcesFor(release, backports, parseTargets(string(out)))
	if err != nil {
		return nil, err
	}
	a := &Apt{dir: dir, progress: progress}
	if err := a.configure(sources, on); err != nil {
		return nil, err
	}
	stamp := filepath.Join(dir, "updated")
	if !fresh(stamp, sources, refresh) {
		fmt.Fprintf(progress, "rdmavm: fetching the package lists of Debian %s\n", release)
		if err := a.run(ctx, "apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any"); err != nil {
			return nil, err
		}
		if err := os.WriteFile(stamp, []byte(sources), 0o644); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// listAge is the maximum age of the package lists. Older lists may contain versions that the
// mirror has replaced.
const listAge = 24 * time.Hour

// fresh reports whether the lists are usable. stamp is the file with their time, and sources
// their sources. With refresh, only lists from the current preparations are usable.
func fresh(stamp, sources string, refresh bool) bool {
	old, err := os.ReadFile(stamp)
	if err != nil || string(old) != sources {
		return false
	}
	st, err := os.Stat(stamp)
	age := listAge
	if refresh {
		age = time.Minute
	}
	return err == nil && time.Since(st.ModTime()) < age
}

// configure writes the private state. It passes the configuration with -c and not with
// APT_CONFIG, which apt reads before the machine's own configuration. The private configuration
// must override the machine's, but keep its proxies and certificates.
func (a *Apt) configure(sources string, on *arch.Arch) error {
	for _, d := range []string{"lists/partial", "cache/archives/partial", "empty"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}
	conf := strings.NewReplacer("@", a.dir, "ARCH", on.Name).Replace(`#clear APT::Update;
#clear DPkg;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::CNF;
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Architectures { "ARCH"; };
APT::Architecture "ARCH";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "@";
Dir::State::lists "@/lists";
Dir::State::status "@/status";
Dir::State::extended_states "@/extended_states";
Dir::Cache "@/cache";
Dir::Cache::archives "@/cache/archives";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Etc::sourcelist "@/sources.list";
Dir::Etc::sourceparts "@/empty";
Dir::Etc::preferences "@/preferences";
Dir::Etc::preferencesparts "@/empty";
Dir::Log "@";
`)
	for name, text := range map[string]string{"apt.conf": conf, "sources.list": sources, "status": "", "preferences": ""} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command of apt with the private state. It discards the output unless the command
// fails.
func (a *Apt) run(ctx context.Context, name string, args ...string) error {
	_, err := a.output(ctx, a.dir, name, args...)
	return err
}

// output is like run for a command in dir, and returns its output.
func (a *Apt) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, slices.Concat([]string{"-c", filepath.Join(a.dir, "apt.conf")}, a.options, args)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLines(stderr.String(), 3))
	}
	return string(out), nil
}

// explain adds a command's stderr to its error.
func explain(err error) error {
	var ee *exec.ExitError
	if errors.As(err, &ee) && len(ee.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, lastLines(string(ee.Stderr), 3))
	}
	return err
}

// lastLines returns the last n lines of s, joined to one line.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
