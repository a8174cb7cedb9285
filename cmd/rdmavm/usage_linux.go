// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

const usageHead = `Usage: rdmavm [flags] [--] program [args]
       rdmavm [flags]                  (a shell)
       rdmavm [flags] -list file
       go test -exec 'rdmavm [flags]' packages

Rdmavm runs a program in a small virtual machine that has RDMA devices, and
exits with the program's status. 124 means that it ran too long, 125 that
rdmavm itself failed. The manual: go doc purerdma/cmd/rdmavm

`

const usageTail = `
A list is one JSON object per command, run in order whatever their statuses:
  {"dir": "verbs", "args": ["/tmp/verbs.test", "-test.v"], "env": ["A=b"]}
The exit status is the status of the first command that failed.
`
