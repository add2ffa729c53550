package early

const sysUserfaultfd = 323 // of asm/unistd_64.h
