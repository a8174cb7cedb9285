// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"

	"purerdma/cmd/internal/hwjudge"
	"purerdma/cmd/internal/tool"
	"purerdma/internal/hwreport"
)

// judge prints the judgment of a report, and writes its vectors.
func (p *program) judge(_ context.Context, o *options, args []string, u *tool.UI) int {
	f, err := os.Open(args[0])
	if err != nil {
		u.Fail(err)
		return statusNoReport
	}
	defer f.Close()
	r, files, err := hwreport.ReadArchive(f)
	if err != nil {
		u.Fail(err)
		return statusNoReport
	}
	j := hwjudge.Judge(r, files)
	if err := u.Printf("%s", j); err != nil {
		u.Fail(err)
		return statusNoReport
	}
	if o.vectors != "" {
		names, err := j.WriteVectors(o.vectors)
		for _, name := range names {
			u.Printf("vectors: %s\n", name)
		}
		if err != nil {
			u.Fail(err)
			return statusNoReport
		}
	}
	if j.Failed() {
		return statusFailed
	}
	return 0
}
