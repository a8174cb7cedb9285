// SPDX-License-Identifier: Apache-2.0

package share

import (
	"slices"
	"testing"

	"purerdma/test/microvm/wire"
)

func TestDirs(t *testing.T) {
	all := func(p string) (string, bool) { return p, true }
	tests := []struct {
		name     string
		commands []wire.Command
		extra    []string
		resolve  func(string) (string, bool)
		want     []string
	}{
		{
			name:     "working directory",
			commands: []wire.Command{{Dir: "/home/me/src", Args: []string{"ls"}}},
			want:     []string{"/home/me/src"},
		},
		{
			name: "go test",
			commands: []wire.Command{{Dir: "/m/a", Args: []string{"/tmp/go-build12/b001/a.test",
				"-test.paniconexit0", "-test.gocoverdir=/tmp/go-build12/b001/gocoverdir", "-test.outputdir=/m",
				"-test.coverprofile=/tmp/go-build12/b001/_cover_.out", "-test.cpuprofile=cpu.out"}}},
			want: []string{"/m", "/tmp/go-build12"},
		},
		{
			name: "profiles without outputdir",
			commands: []wire.Command{{Dir: "/m/a", Args: []string{"./a.test", "-test.cpuprofile", "../out/cpu", "--test.trace=/t/x",
				"--", "-test.trace=/no/x"}, Env: []string{"GOCOVERDIR=/cov", "HOME=/h"}}},
			want: []string{"/cov", "/m/a", "/m/out", "/t"},
		},
		{
			name:     "system directories only by name",
			commands: []wire.Command{{Dir: "/", Args: []string{"ls"}}, {Dir: "/etc/x", Args: []string{"ls"}}, {Dir: "/usr", Args: []string{"ls"}}},
			extra:    []string{"/srv/data"},
			want:     []string{"/srv/data"},
		},
		{
			name:     "neighbours are not within",
			commands: []wire.Command{{Dir: "/m/a", Args: []string{"ls"}}, {Dir: "/m/ab", Args: []string{"ls"}}, {Dir: "/m/a/c", Args: []string{"ls"}}},
			want:     []string{"/m/a", "/m/ab"},
		},
		{
			name:     "sorting puts a-b before a/b",
			commands: []wire.Command{{Dir: "/m", Args: []string{"ls"}}, {Dir: "/m-x", Args: []string{"ls"}}, {Dir: "/m/y", Args: []string{"ls"}}},
			want:     []string{"/m", "/m-x"},
		},
		{
			name:     "what is no directory",
			commands: []wire.Command{{Dir: "/m", Args: []string{"ls", "-test.trace=/none/x"}}},
			resolve:  func(p string) (string, bool) { return p, p == "/m" },
			want:     []string{"/m"},
		},
		{
			name:     "links",
			commands: []wire.Command{{Dir: "/link", Args: []string{"ls"}}, {Dir: "/toroot", Args: []string{"ls"}}},
			resolve: func(p string) (string, bool) {
				return map[string]string{"/link": "/m", "/toroot": "/"}[p], true
			},
			want: []string{"/m"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.resolve == nil {
				tt.resolve = all
			}
			if got := Dirs(tt.commands, tt.extra, tt.resolve); !slices.Equal(got, tt.want) {
				t.Errorf("Dirs = %q, want %q", got, tt.want)
			}
		})
	}
}
