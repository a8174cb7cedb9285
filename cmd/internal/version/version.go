// SPDX-License-Identifier: Apache-2.0

// Package version prints the version of a program. The go command records it in every binary
// that it builds in a clone of the repository.
package version

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path"
	"runtime"
	"runtime/debug"
)

// Requested reports whether -version is the only argument. No program of rdma-core accepts it,
// because -e is not an option of any of them.
func Requested(args []string) bool {
	return len(args) == 1 && (args[0] == "-version" || args[0] == "--version")
}

// Print writes the version of the running program to w.
func Print(w io.Writer) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("version: the program was built without build information")
	}
	_, err := io.WriteString(w, Line(info))
	return err
}

// Line returns the line that Print writes for a program with this build information.
func Line(info *debug.BuildInfo) string {
	set := map[string]string{"GOOS": runtime.GOOS, "GOARCH": runtime.GOARCH}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	line := fmt.Sprintf("%s %s %s %s/%s", path.Base(info.Path), info.Main.Version, info.GoVersion, set["GOOS"], set["GOARCH"])
	if rev := set["vcs.revision"]; rev != "" {
		line += " " + rev
	}
	return line + "\n"
}

// Flag adds -version to the flags of a program that calls Requested first, so that its usage
// lists the flag. With other arguments, the flag is an error.
func Flag(fs *flag.FlagSet) {
	fs.BoolFunc("version", "print the version", func(string) error {
		return errors.New("-version must be the only argument")
	})
}
