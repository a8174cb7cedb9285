// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package apt gets Debian packages with the machine's own apt and unpacks
// them into a directory, without installing anything and without root.
//
// It keeps an apt state of its own (lists, cache and an empty dpkg status)
// below one directory. The empty status is what makes the answers the same
// on every machine: the dependencies of a package are then all of them, not
// those this machine happens to lack.
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
)

// An Apt is a private apt state for one Debian release.
type Apt struct {
	dir      string   // lists, cache, configuration
	options  []string // for every command
	progress io.Writer
}

// From returns an Apt that takes packages from that suite where it has them,
// such as "trixie-backports", whose packages apt takes only when told to.
func (a *Apt) From(suite string) *Apt {
	b := *a
	b.options = append(b.options[:len(b.options):len(b.options)], "-o", "APT::Default-Release="+suite)
	return &b
}

// ErrNotDebian says that the machine has no apt to ask, or one that knows no
// mirror of Debian.
var ErrNotDebian = errors.New("this is not a Debian machine")

// Open prepares the state for release (a codename such as "bookworm", and
// its -updates, -security and, with backports, -backports suites) in dir and
// fetches the package lists if they are missing or refresh is set.
func Open(ctx context.Context, dir, release string, backports, refresh bool, progress io.Writer) (*Apt, error) {
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
	if err := a.configure(sources); err != nil {
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

// listAge is how old the package lists may be. Older ones name versions that
// the mirror may have replaced.
const listAge = 24 * time.Hour

// fresh says whether the lists, of the sources and from the time that the
// file stamp tells, will do. With refresh they have to be of now, which those
// are that another part of the same preparations has just fetched.
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

// configure writes the private state. The configuration is given by -c and
// not by APT_CONFIG: that is read first, before the machine's own parts,
// while this has to overrule them but keep their proxies and certificates.
func (a *Apt) configure(sources string) error {
	for _, d := range []string{"lists/partial", "cache/archives/partial", "empty"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}
	conf := strings.ReplaceAll(`#clear APT::Update;
#clear DPkg;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::CNF;
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Architectures { "amd64"; };
APT::Architecture "amd64";
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
`, "@", a.dir)
	for name, text := range map[string]string{"apt.conf": conf, "sources.list": sources, "status": "", "preferences": ""} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command of apt with the private state, its output discarded
// unless it fails.
func (a *Apt) run(ctx context.Context, name string, args ...string) error {
	_, err := a.output(ctx, a.dir, name, args...)
	return err
}

// output is run for a command that is to run in dir and whose output counts.
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

// explain puts what a command wrote to its stderr into the error.
func explain(err error) error {
	var ee *exec.ExitError
	if errors.As(err, &ee) && len(ee.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, lastLines(string(ee.Stderr), 3))
	}
	return err
}

// lastLines returns the last n lines of s, joined to one.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
