"""A JupyterHub on Kubernetes, a pod for each learner: the lab's part of its configuration.

With the Helm chart, the same settings stand under hub.extraConfig. The image is
docker/hub/Dockerfile, pushed to where the cluster finds it.
"""

c = get_config()  # noqa: F821  (given by JupyterHub)

c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.KubeSpawner.image = "delivery-lab-hub:0.1.0"
c.KubeSpawner.cmd = ["jupyterhub-singleuser"]
c.KubeSpawner.notebook_dir = "/home/learner/work"
c.KubeSpawner.default_url = "/lab/tree/Course.md"
c.KubeSpawner.mem_limit = "2G"
c.KubeSpawner.mem_guarantee = "1.5G"
c.KubeSpawner.cpu_limit = 2
c.KubeSpawner.uid = 1000
c.KubeSpawner.fs_gid = 1000
c.KubeSpawner.allow_privilege_escalation = False
# Only the work folder and /tmp are written to; no capability is needed.
c.KubeSpawner.container_security_context = {
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
c.KubeSpawner.storage_pvc_ensure = True
c.KubeSpawner.storage_capacity = "2Gi"
c.KubeSpawner.pvc_name_template = "delivery-lab-{user_server}"
c.KubeSpawner.volumes = {
    "work": {"name": "work", "persistentVolumeClaim": {"claimName": "delivery-lab-{user_server}"}},
    "tmp": {"name": "tmp", "emptyDir": {}},
}
c.KubeSpawner.volume_mounts = {
    "work": {"name": "work", "mountPath": "/home/learner/work"},
    "tmp": {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
}
