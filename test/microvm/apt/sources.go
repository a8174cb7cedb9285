// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apt

import (
	"fmt"
	"os"
	"strings"
)

// A target is one index in the machine's own sources.
type target struct {
	uri, release, component, signedBy string
}

// parseTargets parses the output of apt-get indextargets.
func parseTargets(out string) []target {
	var ts []target
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		t := target{uri: f[0], release: f[1], component: f[2]}
		// apt prints unknown fields unchanged.
		if len(f) > 3 && strings.HasPrefix(f[3], "/") {
			t.signedBy = f[3]
		}
		ts = append(ts, t)
	}
	return ts
}

// keyring is the file of Debian's own keys, for sources without keys.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// sourcesFor returns a sources.list for the suites of release, with the machine's own mirrors.
// Each mirror also serves the other releases of Debian.
func sourcesFor(release string, backports bool, ts []target) (string, error) {
	var main, security *target
	for i, t := range ts {
		switch suite, debian := debianSuite(t.release); {
		case !debian || t.component != "main":
		case suite == "security" && security == nil:
			security = &ts[i]
		case suite == "" && main == nil:
			main = &ts[i]
		}
	}
	if main == nil {
		return "", fmt.Errorf("%w: no Debian mirror with component main in the apt sources", ErrNotDebian)
	}
	var b strings.Builder
	line := func(t *target, suite string) {
		opt := ""
		if t.signedBy != "" {
			opt = "[signed-by=" + t.signedBy + "] "
		} else if _, err := os.Stat(keyring); err == nil {
			opt = "[signed-by=" + keyring + "] "
		}
		fmt.Fprintf(&b, "deb %s%s %s main\n", opt, t.uri, suite)
	}
	line(main, release)
	if release != "sid" && release != "unstable" {
		line(main, release+"-updates")
		if security != nil {
			line(security, release+"-security")
		}
		if backports {
			line(main, release+"-backports")
		}
	}
	return b.String(), nil
}

// debianSuite splits a release such as "bookworm-security" and reports whether it is a Debian
// release.
func debianSuite(release string) (suite string, ok bool) {
	release = strings.TrimSuffix(release, "/updates") // security suites up to buster
	name, suite, _ := strings.Cut(release, "-")
	switch name {
	case "bullseye", "bookworm", "trixie", "forky", "duke", "sid",
		"oldoldstable", "oldstable", "stable", "testing", "unstable":
		return suite, true
	}
	return "", false
}

// HostRelease returns the codename of this machine's Debian release, or "" on another system.
func HostRelease() string {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	return hostRelease(string(b))
}

func hostRelease(osRelease string) string {
	v := map[string]string{}
	for line := range strings.Lines(osRelease) {
		key, val, _ := strings.Cut(strings.TrimSpace(line), "=")
		v[key] = strings.Trim(val, `"'`)
	}
	if v["ID"] != "debian" {
		return ""
	}
	if v["VERSION_CODENAME"] == "" {
		return "sid"
	}
	return v["VERSION_CODENAME"]
}
